package main

import (
	"fmt"
	"hash/fnv"
	"math/rand"
	"reflect"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A filler sets every field of an object in one of four ways:
//
//	empty    nothing is set
//	zero     every pointer points to a zero value, every list and map has one zero element
//	full     everything is set to something that is not zero
//	random*  each field by the toss of a seeded die
type filler struct {
	r    *rand.Rand
	mode string
	n    int
}

func fill(obj runtime.Object, mode, salt string) {
	if mode == "empty" {
		return
	}
	h := fnv.New64a()
	h.Write([]byte(salt + mode))
	f := &filler{r: rand.New(rand.NewSource(int64(h.Sum64()))), mode: mode}
	if len(mode) > 6 && mode[:6] == "random" {
		f.mode = "random"
	}
	v := reflect.ValueOf(obj).Elem()
	for i := 0; i < v.NumField(); i++ {
		if v.Type().Field(i).Name != "TypeMeta" {
			f.value(v.Field(i), 0, nil)
		}
	}
}

func (f *filler) set() bool {
	return f.mode != "random" || f.r.Intn(3) > 0
}

func (f *filler) zero() bool {
	return f.mode == "zero" || (f.mode == "random" && f.r.Intn(4) == 0)
}

func (f *filler) word() string {
	f.n++
	if f.mode == "random" && f.r.Intn(6) == 0 {
		return fmt.Sprintf("ü\"\\<%d>\u2028", f.n)
	}
	return fmt.Sprintf("s%d", f.n)
}

func (f *filler) raw() []byte {
	docs := []string{`{"a":1,"b":[true,null,"x"]}`, `{"kind":"Foo","apiVersion":"x/v1"}`, `{}`}
	return []byte(docs[f.r.Intn(len(docs))])
}

// depth bounds types that contain themselves.
func (f *filler) value(v reflect.Value, depth int, stack []reflect.Type) {
	if f.special(v, depth, stack) {
		return
	}
	t := v.Type()
	switch v.Kind() {
	case reflect.Pointer:
		if !f.set() || recursive(stack, t.Elem()) {
			return
		}
		v.Set(reflect.New(t.Elem()))
		f.value(v.Elem(), depth, stack)
	case reflect.Struct:
		stack = append(stack, t)
		for i := 0; i < v.NumField(); i++ {
			if t.Field(i).Name != "TypeMeta" && t.Field(i).IsExported() {
				f.value(v.Field(i), depth+1, stack)
			}
		}
	case reflect.Slice:
		if !f.set() || recursive(stack, t.Elem()) {
			return
		}
		if t.Elem().Kind() == reflect.Uint8 {
			if !f.zero() {
				v.SetBytes([]byte{0, 1, 2, 0xff, byte(f.r.Intn(256))})
			}
			return
		}
		n := 1
		if f.mode == "random" {
			n = 1 + f.r.Intn(2)
		}
		v.Set(reflect.MakeSlice(t, n, n))
		for i := 0; i < n; i++ {
			f.value(v.Index(i), depth+1, stack)
		}
	case reflect.Map:
		if !f.set() || recursive(stack, t.Elem()) {
			return
		}
		v.Set(reflect.MakeMap(t))
		for i := 0; i < 2; i++ {
			k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			k.SetString(fmt.Sprintf("k%d", i))
			f.value(e, depth+1, stack)
			v.SetMapIndex(k, e)
		}
	case reflect.String:
		if !f.zero() {
			v.SetString(f.word())
		}
	case reflect.Bool:
		v.SetBool(!f.zero())
	case reflect.Int32, reflect.Int64, reflect.Int:
		if !f.zero() {
			n := f.r.Int63n(1000) + 1
			if f.r.Intn(3) == 0 {
				n = -n
			}
			if v.Kind() == reflect.Int64 && f.r.Intn(4) == 0 {
				n <<= 40
			}
			v.SetInt(n)
		}
	case reflect.Float64:
		if !f.zero() {
			v.SetFloat(float64(f.r.Intn(100)) / 4)
		}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if !f.zero() {
			v.SetUint(7)
		}
	case reflect.Interface:
	default:
		panic(fmt.Sprintf("no rule for %v", t))
	}
}

func recursive(stack []reflect.Type, t reflect.Type) bool {
	n := 0
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, s := range stack {
		if s == t {
			n++
		}
	}
	return n > 1
}

func (f *filler) special(v reflect.Value, depth int, stack []reflect.Type) bool {
	if !v.CanAddr() {
		return false
	}
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		if !f.zero() {
			p.Time = time.Unix(f.r.Int63n(4e9)+1, 0)
		}
	case *metav1.MicroTime:
		if !f.zero() {
			p.Time = time.Unix(f.r.Int63n(4e9)+1, f.r.Int63n(1e6)*1000)
		}
	case *metav1.Duration:
		if !f.zero() {
			p.Duration = time.Duration(f.r.Int63n(1e15))
		}
	case *resource.Quantity:
		texts := []string{"100m", "1Gi", "5", "2500Mi", "1500m", "10k"}
		*p = resource.MustParse("0")
		if !f.zero() {
			*p = resource.MustParse(texts[f.r.Intn(len(texts))])
		}
	case *intstr.IntOrString:
		if !f.zero() {
			*p = intstr.FromInt32(f.r.Int31n(1000) - 300)
			if f.r.Intn(2) == 0 {
				*p = intstr.FromString(f.word())
			}
		}
	case *runtime.RawExtension:
		if !f.zero() {
			p.Raw = f.raw()
		}
	case *metav1.FieldsV1:
		if !f.zero() {
			p.Raw = []byte(`{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`)
		}
	case *apiextensionsv1.JSON:
		docs := []string{`"x"`, `12`, `1.5`, `true`, `[1,2]`, `{"a":null}`}
		if !f.zero() {
			p.Raw = []byte(docs[f.r.Intn(len(docs))])
		}
	case *apiextensionsv1.JSONSchemaPropsOrBool:
		p.Allows = !f.zero()
		if f.set() && !recursive(stack, reflect.TypeOf(apiextensionsv1.JSONSchemaProps{})) && f.r.Intn(2) == 0 {
			p.Allows = true
			p.Schema = &apiextensionsv1.JSONSchemaProps{}
			f.value(reflect.ValueOf(p.Schema).Elem(), depth, stack)
		}
	case *apiextensionsv1.JSONSchemaPropsOrArray:
		one := func() apiextensionsv1.JSONSchemaProps {
			var s apiextensionsv1.JSONSchemaProps
			if !recursive(stack, reflect.TypeOf(s)) {
				f.value(reflect.ValueOf(&s).Elem(), depth, stack)
			}
			return s
		}
		if f.r.Intn(2) == 0 {
			s := one()
			p.Schema = &s
		} else {
			p.JSONSchemas = []apiextensionsv1.JSONSchemaProps{one(), one()}
		}
	case *apiextensionsv1.JSONSchemaPropsOrStringArray:
		if f.r.Intn(2) == 0 {
			p.Property = []string{f.word(), f.word()}
		} else {
			p.Schema = &apiextensionsv1.JSONSchemaProps{}
		}
	default:
		return false
	}
	return true
}
