// protofixtures makes two things from the public Go types of Kubernetes, so that no Rust code has to guess
// what Go does:
//
//	protofixtures gojson            the JSON face of every protobuf message: which fields are pointers, which
//	                                are omitted when empty, which are inlined (input of `xtask tables`)
//	protofixtures fixtures -out d   objects as protobuf and as the JSON a Go client would have sent
//	protofixtures verify -in d      reads such files and checks that Go reads the protobuf as that JSON; this
//	                                judges what the Rust encoder wrote
//
// The expected JSON is taken after a round trip through protobuf, because that is what a server sees: an
// empty list and a missing one are the same on the wire.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// The group-versions the embedded server serves.
var served = []func(*runtime.Scheme) error{
	corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, autoscalingv1.AddToScheme,
	autoscalingv2.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, networkingv1.AddToScheme,
	storagev1.AddToScheme, schedulingv1.AddToScheme, coordinationv1.AddToScheme, nodev1.AddToScheme,
	discoveryv1.AddToScheme, eventsv1.AddToScheme, admissionregistrationv1.AddToScheme,
	apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, authenticationv1.AddToScheme,
	authorizationv1.AddToScheme, certificatesv1.AddToScheme, flowcontrolv1.AddToScheme,
	resourcev1.AddToScheme, metav1.AddMetaToScheme,
}

// Kinds every group registers for itself; one group's worth of fixtures is enough.
var common = map[string]bool{
	"WatchEvent": true, "ListOptions": true, "CreateOptions": true, "DeleteOptions": true,
	"GetOptions": true, "PatchOptions": true, "UpdateOptions": true,
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range served {
		if err := add(s); err != nil {
			log.Fatal(err)
		}
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}

// kinds lists what can be sent as protobuf, sorted.
func kinds(s *runtime.Scheme) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for gvk, t := range s.AllKnownTypes() {
		// Events of a watch have no envelope, and conversion reviews are sent by servers, as JSON.
		if gvk.Version == runtime.APIVersionInternal || strings.HasSuffix(gvk.Kind, "WatchEvent") ||
			gvk.Kind == "ConversionReview" {
			continue
		}
		if common[gvk.Kind] && !(gvk.Group == "" && gvk.Version == "v1") {
			continue
		}
		if _, ok := reflect.New(t).Interface().(interface{ Marshal() ([]byte, error) }); !ok {
			continue
		}
		out = append(out, gvk)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].String() < out[j].String() })
	return out
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: protofixtures gojson | fixtures -out DIR [options]")
	}
	s := newScheme()
	switch os.Args[1] {
	case "gojson":
		goJSON(s)
	case "fixtures":
		fs := flag.NewFlagSet("fixtures", flag.ExitOnError)
		out := fs.String("out", "", "directory, one file per group-version")
		random := fs.Int("random", 0, "random objects per kind, besides empty, zero and full ones")
		max := fs.Int("max", 1<<30, "leave out objects whose JSON is longer")
		big := fs.String("big", "", "kinds for which -max does not hold")
		lists := fs.Bool("lists", true, "also write list kinds")
		only := fs.String("modes", "empty,zero,full", "which of the deterministic objects to write")
		_ = fs.Parse(os.Args[2:])
		fixtures(s, *out, *random, strings.Split(*only, ","), func(kind string, size int) bool {
			if !*lists && strings.HasSuffix(kind, "List") && kind != "List" && kind != "ConfigMapList" {
				return false
			}
			return size <= *max || strings.Contains(","+*big+",", ","+kind+",")
		})
	case "verify":
		fs := flag.NewFlagSet("verify", flag.ExitOnError)
		in := fs.String("in", "", "directory")
		_ = fs.Parse(os.Args[2:])
		verify(s, *in)
	default:
		log.Fatalf("unknown command %q", os.Args[1])
	}
}

func fixtures(s *runtime.Scheme, dir string, random int, modes []string, keep func(kind string, size int) bool) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		log.Fatal(err)
	}
	files := map[string]*bytes.Buffer{}
	enc := protobuf.NewSerializer(s, s)
	for _, gvk := range kinds(s) {
		names := append([]string{}, modes...)
		for i := 0; i < random; i++ {
			names = append(names, fmt.Sprintf("random%d", i))
		}
		for _, mode := range names {
			obj, err := s.New(gvk)
			if err != nil {
				log.Fatal(err)
			}
			fill(obj, mode, gvk.String())
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			var buf bytes.Buffer
			if err := enc.Encode(obj, &buf); err != nil {
				log.Fatalf("%v %s: %v", gvk, mode, err)
			}
			back, _ := s.New(gvk)
			got, _, err := enc.Decode(buf.Bytes(), &gvk, back)
			if err != nil {
				log.Fatalf("%v %s: decoding: %v", gvk, mode, err)
			}
			got.GetObjectKind().SetGroupVersionKind(gvk)
			text, err := json.Marshal(got)
			if err != nil {
				log.Fatalf("%v %s: %v", gvk, mode, err)
			}
			if !keep(gvk.Kind, len(text)) {
				continue
			}
			name := strings.ReplaceAll(gvk.GroupVersion().String(), "/", "_")
			if files[name] == nil {
				files[name] = &bytes.Buffer{}
			}
			fmt.Fprintf(files[name], "%s\t%s\t%s\t%s\n", gvk.Kind, mode, base64.StdEncoding.EncodeToString(buf.Bytes()), text)
		}
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name+".tsv"), b.Bytes(), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

func verify(s *runtime.Scheme, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.tsv"))
	if err != nil {
		log.Fatal(err)
	}
	dec, bad, n := protobuf.NewSerializer(s, s), 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			cells := strings.Split(line, "\t")
			raw, err := base64.StdEncoding.DecodeString(cells[2])
			if err != nil {
				log.Fatal(err)
			}
			n++
			obj, gvk, err := dec.Decode(raw, nil, nil)
			if err != nil {
				log.Printf("%s %s: %v", cells[0], cells[1], err)
				bad++
				continue
			}
			obj.GetObjectKind().SetGroupVersionKind(*gvk)
			got, err := json.Marshal(obj)
			if err != nil {
				log.Fatal(err)
			}
			var a, b any
			_, _ = json.Unmarshal(got, &a), json.Unmarshal([]byte(cells[3]), &b)
			if !reflect.DeepEqual(withoutNull(a), withoutNull(b)) {
				log.Printf("%s %s:\n got %s\nwant %s", cells[0], cells[1], got, cells[3])
				bad++
			}
		}
	}
	log.Printf("%d objects, %d wrong", n, bad)
	if bad > 0 {
		os.Exit(1)
	}
}

// withoutNull forgets pointers to nothing, which the encoder does not write.
func withoutNull(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == nil {
				delete(v, k)
			} else {
				v[k] = withoutNull(e)
			}
		}
	case []any:
		for i, e := range v {
			v[i] = withoutNull(e)
		}
	}
	return v
}

// goJSON prints one line per struct that is a protobuf message: its name, then one token per field,
// `protoName:jsonName` and a flag: `?` absent unless set (pointers, lists and maps that are omitted when
// empty), `!` null unless set, `-` dropped when zero, `+` always written. An inlined struct has an empty JSON name.
func goJSON(s *runtime.Scheme) {
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	seen := map[reflect.Type]bool{}
	lines := []string{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] || !strings.HasPrefix(t.PkgPath(), "k8s.io/") {
			return
		}
		seen[t] = true
		line := "io.k8s." + strings.ReplaceAll(strings.TrimPrefix(t.PkgPath(), "k8s.io/"), "/", ".") + "." + t.Name()
		_, any := reflect.New(t).Interface().(interface{ Marshal() ([]byte, error) })
		for i := 0; i < t.NumField(); i++ {
			f := t.Field(i)
			pb := f.Tag.Get("protobuf")
			if pb == "" || pb == "-" {
				continue
			}
			proto := ""
			for _, part := range strings.Split(pb, ",") {
				if n, ok := strings.CutPrefix(part, "name="); ok {
					proto = n
				}
			}
			if proto == "" {
				// EphemeralContainerCommon's tag names no field; the generator used the Go name.
				proto = strings.ToLower(f.Name[:1]) + f.Name[1:]
			}
			parts := strings.Split(f.Tag.Get("json"), ",")
			name, omit, inline, zero := parts[0], false, false, false
			for _, p := range parts[1:] {
				switch p {
				case "omitempty":
					omit = true
				case "inline":
					inline = true
				case "omitzero":
					zero = true
				}
			}
			if inline || (f.Anonymous && name == "") {
				name = ""
			}
			flag := "+"
			switch f.Type.Kind() {
			case reflect.Pointer, reflect.Interface:
				flag = "?"
				if !omit {
					flag = "!"
				}
			case reflect.Slice, reflect.Map:
				if omit {
					flag = "?"
				}
			case reflect.Struct:
				if zero {
					flag = "-"
				}
			default:
				if omit {
					flag = "-"
				}
			}
			if name == proto {
				line += fmt.Sprintf("\t%s%s", proto, flag)
			} else {
				line += fmt.Sprintf("\t%s:%s%s", proto, name, flag)
			}
			visit(f.Type)
		}
		if any {
			lines = append(lines, line)
		}
	}
	for _, gvk := range kinds(s) {
		visit(s.AllKnownTypes()[gvk])
	}
	sort.Strings(lines)
	for _, l := range lines {
		fmt.Fprintln(w, l)
	}
}
