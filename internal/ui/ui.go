// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ui serves a page that shows a fleet: which HelmOps are in which Clusters and in what state, how their
// rollouts proceed, what holds a Cluster, and what a user can do next.
//
// The page only reads: New returns a handler that answers GET requests and nothing else. It shows HelmOps, their
// releases and revisions, Clusters and Events. It never reads values or Secrets. All texts may come from workload
// clusters and registries. So html/template escapes them, and the Content-Security-Policy permits only the scripts and
// styles of this package. Callers must authenticate users: Local does this for a page on this machine, and the manager
// serves the page behind the authentication of its metrics.
//
// The page works without scripts. With scripts, it updates itself when the fleet changes.
package ui

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

//go:embed static templates
var files embed.FS

// ErrNoEvents is the error of a Source that may not read Events.
var ErrNoEvents = errors.New("the Events cannot be read")

// Source provides the objects of a fleet.
type Source interface {
	// World returns the HelmOps, releases and Clusters. The page does not change them. warning says why the objects may
	// not be current or complete; otherwise it is empty.
	World(ctx context.Context) (world *fleetview.World, warning string, err error)

	// Revisions lists the HelmOp revisions of a HelmOp, the newest last.
	Revisions(ctx context.Context, helmOp *addonsv1.HelmOp) ([]*addonsv1.HelmOpRevision, error)

	// Events lists the Events about an object of HelmOp, the newest last. The error is ErrNoEvents if the source never
	// reads Events.
	Events(ctx context.Context, about client.ObjectKey, kind string) ([]*corev1.Event, error)

	// Changes reports changes of the World.
	Changes() *Changes
}

// Options configure a page.
type Options struct {
	// Source provides the objects.
	Source Source

	// Base is the path under which the page is served. It begins and ends with a slash.
	Base string

	// Scope describes which objects the page shows, for example "namespace default".
	Scope string

	// Namespaces is true if the page shows several namespaces.
	Namespaces bool

	// Program is the program that recommended commands call.
	Program fleetview.Program

	// MaxStreams is the largest number of browser tabs with live updates. A browser opens at most 6 connections to one
	// server, so a page for one user needs a smaller number.
	MaxStreams int

	// Now returns the current time. If it is nil, time.Now is used.
	Now func() time.Time
}

const (
	// maxViews is the largest number of views that are made at the same time. For a large fleet, a view takes some MiB and
	// some ms of a CPU. After a change, each open tab requests its view.
	maxViews = 2

	// viewWait is how long a request for a view waits for its turn.
	viewWait = 5 * time.Second

	// viewTimeout is how long the source may take for a view. Without it, a management cluster that does not answer would
	// occupy all views.
	viewTimeout = 15 * time.Second
)

// errSilent is the error of a view whose source did not answer.
var errSilent = fmt.Errorf("the management cluster did not answer within %s: reload the page; if this does not help, "+
	"check the API server of the management cluster", viewTimeout)

// server is the handler of the page.
type server struct {
	Options

	// streams has an element for each live update that runs, and views for each view that is made.
	streams, views chan struct{}

	// lock guards the fleet, and the time at which a changed fleet is due. The holder sends an element, and receives it
	// again. A request can stop waiting for a channel, but not for a mutex.
	lock   chan struct{}
	cached *fleet
	due    time.Time
	// forget drops the fleet some time after the last request for it.
	forget *time.Timer
}

// New returns the handler of a page.
func New(options Options) http.Handler {
	if options.Now == nil {
		options.Now = time.Now
	}
	s := &server{Options: options, lock: make(chan struct{}, 1),
		streams: make(chan struct{}, options.MaxStreams), views: make(chan struct{}, maxViews)}
	s.forget = time.AfterFunc(fleetKept, s.forgetFleet)
	mux := http.NewServeMux()
	mux.Handle("/static/", s.static())
	mux.HandleFunc("/stream", s.stream)
	for pattern, view := range map[string]view{
		"/{$}":                        s.fleetView,
		"/versions":                   versionsView,
		"/helmop/{namespace}/{name}":  s.helmOpView,
		"/release/{namespace}/{name}": s.releaseView,
		"/cluster/{namespace}/{name}": s.clusterView,
		"/":                           notFoundView,
	} {
		mux.Handle(pattern, s.page(view))
	}
	return Guard(http.StripPrefix(strings.TrimSuffix(options.Base, "/"), mux))
}

// policy permits only the scripts, the style sheet and the requests of the page itself.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Guard sets the headers that protect a page in the browser, and refuses all methods except GET.
func Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":      policy,
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Referrer-Policy":              "no-referrer",
			"Cache-Control":                "no-store",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			w.Header().Set(name, value)
		}
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "The page only answers GET requests.", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// static serves the style sheet and the scripts.
func (s *server) static() http.Handler {
	static, err := fs.Sub(files, ".")
	if err != nil {
		panic(err) // The folder is embedded.
	}
	return http.FileServerFS(static)
}

// content is the content of a view.
type content struct {
	// Title is the title of the window. Template is the name of the template.
	Title, Template string
	// Status is the HTTP status; 0 means 200.
	Status int
	Data   any
}

// view computes a page from the fleet.
type view func(r *http.Request, f *fleet) (content, error)

// layout is the data of all templates.
type layout struct {
	content
	*server
	// Self is the address of the page, from which the script updates it.
	Self string
	// Now is the time of the page.
	Now     time.Time
	Warning string
	// Say is what a screen reader announces after a change.
	Say string
}

// within calls do while it holds one of a limited number of places. If no place becomes free in time, within answers
// the request, and returns false.
func within(w http.ResponseWriter, r *http.Request, places chan struct{}, wait time.Duration, refusal string,
	do func(),
) bool {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
		do()
		return true
	case <-r.Context().Done():
	case <-time.After(wait):
		w.Header().Set("Retry-After", "30")
		http.Error(w, refusal, http.StatusServiceUnavailable)
	}
	return false
}

// page serves a view: the whole page, or only its content for an update by the script. A slow browser does not keep the
// place of a view.
func (s *server) page(show view) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out bytes.Buffer
		var status int
		var err error
		if !within(w, r, s.views, viewWait, "The page is busy with other requests. Reload it in half a minute. If it stays "+
			"busy, close other tabs of the page, and check whether the API server of the management cluster answers.",
			func() { status, err = s.html(r, show, &out) }) {
			return
		}
		if err != nil {
			http.Error(w, "The page cannot be shown: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = out.WriteTo(w)
	})
}

// html writes a view, and returns its HTTP status.
func (s *server) html(r *http.Request, show view, out io.Writer) (status int, err error) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), viewTimeout, errSilent)
	defer cancel()
	l := layout{server: s, Now: s.Now(), Self: s.self(r)}
	f, err := s.fleet(ctx)
	if err == nil {
		l.Warning, l.Say = f.warning, f.say()
		l.content, err = show(r.WithContext(ctx), f)
	}
	if err != nil {
		err = cmp.Or(context.Cause(ctx), err)
		l.content = content{Title: "Error", Template: "error", Status: http.StatusBadGateway, Data: err.Error()}
		if errors.Is(err, errSilent) {
			l.Status = http.StatusGatewayTimeout
		}
	}
	name := "layout"
	if r.Header.Get("HX-Request") == "true" {
		name = "live"
	}
	return max(l.Status, http.StatusOK), templates.ExecuteTemplate(out, name, &l)
}

// self returns the path and query of a request. The path begins with exactly one slash, so that a browser does not read
// it as a host name.
func (s *server) self(r *http.Request) string {
	self := s.Base + strings.TrimLeft(r.URL.EscapedPath(), "/")
	if query := r.URL.Query().Encode(); query != "" {
		self += "?" + query
	}
	return self
}

// Path returns the path of a view with its escaped parts.
func (s *server) Path(parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return s.Base + strings.Join(parts, "/")
}

// keyOf returns the object that the path of a request names.
func keyOf(r *http.Request) client.ObjectKey {
	return client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}

// notFound is the content for an object that does not exist.
func notFound(what string) content {
	return content{Title: "Not found", Template: "error", Status: http.StatusNotFound,
		Data: fmt.Sprintf("There is no %s. It may have been deleted.", what)}
}

func notFoundView(r *http.Request, _ *fleet) (content, error) {
	return notFound(fmt.Sprintf("page %q", r.URL.Path)), nil
}
