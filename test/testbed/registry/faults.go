// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Mode is a way in which the registry fails.
type Mode int

// The ways in which the registry fails.
const (
	// None means no failure.
	None Mode = iota
	// Down refuses every connection. Only SetFault accepts it.
	Down
	// Hang accepts requests and never answers them.
	Hang
	// Status answers with Fault.Code, Header and Body.
	Status
	// Drip sends bodies byte by byte, with Fault.Pause before each.
	Drip
	// Truncate breaks the connection in the middle of a body.
	Truncate
	// Corrupt changes one byte in the middle of a body.
	Corrupt
	// Redirect redirects clients to the same path at Fault.To, with 307.
	Redirect
	// TagPages answers the listing of tags with Fault.Tags, in pages.
	TagPages
	// Cut breaks the connection before the request is carried out.
	Cut
	// LoseAnswer carries the request out and breaks the connection instead of answering.
	LoseAnswer
)

// Fault describes how the registry fails. The zero value is no failure.
type Fault struct {
	Mode Mode
	// Match selects the requests that fail, see In. Default: all. Down ignores Match.
	Match func(Request) bool
	// Times is the number of requests after which the fault ends by itself. Default: never.
	Times int
	// Code is the HTTP status for Status, from 200 to 599.
	Code int
	// Header is added to the answer for Status, such as Retry-After or WWW-Authenticate.
	Header http.Header
	// Body is the answer for Status. Default: an error in the format of the distribution specification.
	Body []byte
	// Pause is the time before each byte, for Drip.
	Pause time.Duration
	// To is the address for Redirect, such as "https://other.example:5000". Default: the BlobHost.
	To string
	// Tags are all tags, in the order of the listing, for TagPages.
	Tags []string
	// PageSize is the largest number of tags in a page of TagPages. Default: 100.
	PageSize int
}

// In matches the requests for a repository. With kinds, it matches only requests of these kinds.
func In(repository string, kinds ...Kind) func(Request) bool {
	return func(r Request) bool {
		return r.Repository == repository && (len(kinds) == 0 || slices.Contains(kinds, r.Kind))
	}
}

// BigManifest returns a fault that answers with a valid manifest of a chart that has size bytes, more than a registry
// accepts. Combine the fault with a Match for a repository's manifests.
func BigManifest(size int) (Fault, error) {
	manifest := ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    ocispec.Descriptor{MediaType: chartConfigType, Digest: ocispec.DescriptorEmptyJSON.Digest, Size: 2},
		Layers:    []ocispec.Descriptor{{MediaType: ChartLayerType, Digest: ocispec.DescriptorEmptyJSON.Digest, Size: 2}},
	}
	manifest.SchemaVersion = 2
	manifest.Annotations = map[string]string{"padding": ""}
	bare, err := json.Marshal(manifest)
	if err != nil {
		return Fault{}, err
	}
	manifest.Annotations["padding"] = strings.Repeat("x", max(0, size-len(bare)))
	body, err := json.Marshal(manifest)
	if err != nil {
		return Fault{}, err
	}
	header := http.Header{}
	header.Set("Content-Type", ocispec.MediaTypeImageManifest)
	header.Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(body)))
	return Fault{Mode: Status, Code: http.StatusOK, Header: header, Body: body}, nil
}

func (f Fault) check() error {
	switch {
	case f.Mode == Status && (f.Code < 200 || f.Code > 599):
		return errors.New("a fault's code must be between 200 and 599")
	case f.Mode == Drip && f.Pause <= 0:
		return errors.New("a fault that drips needs a pause")
	}
	return nil
}

// SetFault makes the registry fail for clients until the next call. It returns an error if the fault is invalid, or if
// the front cannot listen again after Down.
func (r *Registry) SetFault(fault Fault) error {
	if err := fault.check(); err != nil {
		return err
	}
	return r.front.setFault(fault)
}

// Fail makes the registry fail for clients until end is called. The first fault that matches a request applies; the
// fault of SetFault is the last.
func (r *Registry) Fail(fault Fault) (end func(), err error) {
	if err := fault.check(); err != nil {
		return nil, err
	}
	if fault.Mode == Down {
		return nil, errors.New("the mode Down is only for SetFault")
	}
	return r.front.fail(fault), nil
}

func (f *front) setFault(fault Fault) error {
	f.faulty.Lock()
	defer f.faulty.Unlock()
	f.general.end()
	f.general = newActiveFault(fault)
	switch {
	case fault.Mode == Down:
		return f.endpoint.close()
	case f.server == nil:
		return f.listen()
	}
	return nil
}

func (f *front) fail(fault Fault) (end func()) {
	active := newActiveFault(fault)
	f.faulty.Lock()
	defer f.faulty.Unlock()
	f.faults = append(f.faults, active)
	return func() {
		f.faulty.Lock()
		defer f.faulty.Unlock()
		f.faults = slices.DeleteFunc(f.faults, func(a *activeFault) bool { return a == active })
		active.end()
	}
}

// faultFor returns the fault that matches a request, if any.
func (f *front) faultFor(request Request) *activeFault {
	f.faulty.Lock()
	defer f.faulty.Unlock()
	for _, fault := range append(slices.Clone(f.faults), f.general) {
		if fault.meets(request) {
			return fault
		}
	}
	return nil
}

// activeFault is a fault that has not ended. nil is no fault.
type activeFault struct {
	Fault
	met   int
	ended bool
	// over is closed when the fault ends, to release the requests that it blocks.
	over chan struct{}
}

func newActiveFault(fault Fault) *activeFault {
	if fault.Mode == None {
		return nil
	}
	return &activeFault{Fault: fault, over: make(chan struct{})}
}

func (a *activeFault) end() {
	if a != nil && !a.ended {
		a.ended = true
		close(a.over)
	}
}

// meets reports whether the fault applies to a request, and counts the request.
func (a *activeFault) meets(request Request) bool {
	switch {
	case a == nil, a.Times > 0 && a.met == a.Times:
		return false
	case a.Match != nil && !a.Match(request):
		return false
	case a.Mode == TagPages && request.Kind != TagList:
		return false
	}
	a.met++
	return true
}

// answer answers in place of the registry, if the fault's mode requires an answer.
func (a *activeFault) answer(w http.ResponseWriter, req *http.Request, blobHost string) bool {
	switch a.Mode {
	case Hang:
		select {
		case <-a.over:
		case <-req.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case Cut:
		breakOff(req)
	case Status:
		a.status(w)
	case Redirect:
		to := a.To
		if to == "" {
			to = blobHost
		}
		http.Redirect(w, req, to+req.URL.RequestURI(), http.StatusTemporaryRedirect)
	case TagPages:
		a.tagPage(w, req)
	default:
		return false
	}
	return true
}

// breakOff closes the connection of a request, with all requests on the connection, and does not return.
func breakOff(req *http.Request) {
	if conn, ok := req.Context().Value(connKey{}).(net.Conn); ok {
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// discarded drops an answer.
type discarded struct{ header http.Header }

// Header implements http.ResponseWriter.
func (d discarded) Header() http.Header { return d.header }

// Write implements http.ResponseWriter.
func (d discarded) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader implements http.ResponseWriter.
func (d discarded) WriteHeader(int) {}

func (a *activeFault) status(w http.ResponseWriter) {
	for key, values := range a.Header {
		w.Header()[key] = values
	}
	if a.Body == nil {
		writeError(w, a.Code, "UNKNOWN", http.StatusText(a.Code))
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(a.Code)
	// The client may have closed the connection, or may have sent HEAD, which has no body.
	_, _ = w.Write(a.Body)
}

// writeError answers with an error in the format of the distribution specification.
func writeError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that has closed the connection needs no answer.
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]string{"code": code, "message": message}}})
}

// tagPage answers with the tags after the tag in the query's "last", and with a link to the next page.
func (a *activeFault) tagPage(w http.ResponseWriter, req *http.Request) {
	size := a.PageSize
	if size <= 0 {
		size = 100
	}
	if n, err := strconv.Atoi(req.URL.Query().Get("n")); err == nil && n > 0 {
		size = min(size, n)
	}
	tags := a.Tags
	if last := req.URL.Query().Get("last"); last != "" {
		tags = tags[slices.Index(tags, last)+1:]
	}
	if len(tags) > size {
		tags = tags[:size]
		w.Header().Set("Link", fmt.Sprintf(`<%s?last=%s&n=%d>; rel="next"`, req.URL.Path, tags[size-1], size))
	}
	w.Header().Set("Content-Type", "application/json")
	// A client that has closed the connection needs no answer.
	_ = json.NewEncoder(w).Encode(map[string]any{"name": classify(req.Method, req.URL.Path).Repository, "tags": tags})
}
