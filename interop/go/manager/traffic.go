package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// traffic counts what a client really sends. An informer that lost its watch recovers silently; the only
// place to see that it had to is the wire.
type traffic struct {
	mu       sync.Mutex
	counts   map[string]int
	protobuf int
	log      []string
	marked   bool
}

func newTraffic() *traffic { return &traffic{counts: map[string]int{}} }

// mark starts the steady state: from here on every list and watch is remembered as an offence.
func (t *traffic) mark() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marked, t.log = true, nil
}

// sinceMark gives the lists and watches begun after mark.
func (t *traffic) sinceMark() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.log...)
}

func (t *traffic) summary() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("lists=%d watches=%d watchlists=%d protobuf-bodies=%d",
		t.counts["list"], t.counts["watch"], t.counts["watchlist"], t.protobuf)
}

func (t *traffic) protobufBodies() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.protobuf
}

type roundTripper struct {
	next http.RoundTripper
	t    *traffic
}

// wrap is a rest.Config WrapTransport.
func (t *traffic) wrap(next http.RoundTripper) http.RoundTripper { return roundTripper{next, t} }

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	kind := classify(req)
	r.t.mu.Lock()
	r.t.counts[kind]++
	if strings.HasPrefix(req.Header.Get("Content-Type"), "application/vnd.kubernetes.protobuf") {
		r.t.protobuf++
	}
	if r.t.marked && kind != "other" {
		r.t.log = append(r.t.log, kind+" "+req.URL.RequestURI())
	}
	r.t.mu.Unlock()
	return r.next.RoundTrip(req)
}

// classify tells list, watch and watchlist from everything else by method, path and query alone.
func classify(req *http.Request) string {
	if req.Method != http.MethodGet {
		return "other"
	}
	q := req.URL.Query()
	if v := q.Get("watch"); v == "true" || v == "1" {
		if q.Get("sendInitialEvents") == "true" {
			return "watchlist"
		}
		return "watch"
	}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "other" // discovery, openapi, version
	}
	// [resource] or [namespaces ns resource] name a collection; longer paths name an object or a subresource.
	if len(parts) == 1 || (len(parts) == 3 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize") {
		return "list"
	}
	return "other"
}
