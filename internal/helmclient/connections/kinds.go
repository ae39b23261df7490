// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

const (
	// kindsTTL is the maximum age of the kinds that a new action uses, except for most uninstallations. It is long enough
	// for several charts that are installed one after the other in a new cluster. HelmOp finds kinds that it adds to the
	// cluster itself at once, and also the kinds of objects in a manifest. But a template that only tests whether a kind
	// exists may miss, for up to this time, a kind that another process added.
	kindsTTL = time.Minute
	// UnknownKindInterval is the minimum time between two discoveries because of an unknown kind. A chart may have many
	// objects of kinds that the cluster does not serve.
	UnknownKindInterval = 2 * time.Second
)

// errNoKinds is the error of a discovery that did not complete.
var errNoKinds = errors.New("reading the cluster's API versions did not complete")

// Kinds holds the version of a cluster, the kinds that it serves, and their resources. A caller runs discovery if the
// kinds are missing or outdated. Concurrent callers wait for the same result, even if it is an error. It is safe for
// concurrent use.
type Kinds struct {
	host    rest.Config
	live    *discovery.DiscoveryClient
	tags    *tagTransport
	library *kindsLibrary
	Now     func() time.Time
	// discovered, if set, is called after each successful discovery.
	discovered func()

	Mu sync.Mutex
	// known is the result of the last discovery; nil if there is none.
	known *knownKinds
	// expired counts how often the next action was made to run discovery again.
	expired int
	// Invalid counts how often the next lookup was made to run discovery again.
	Invalid int
	// flight is the running discovery; nil if none is running.
	flight *kindsFlight
	// UnknownAt is when discovery was last run because of an unknown kind.
	UnknownAt time.Time
}

// knownKinds is the result of a discovery in a cluster. It is read only.
type knownKinds struct {
	// expired and invalid are the counts in Kinds at the start of the discovery.
	expired, invalid int
	// discoveredAt is when the discovery ended.
	discoveredAt time.Time
	*kindsResult
}

// kindsResult is the discovery result of a cluster, or of several clusters with the same result. It is read only.
type kindsResult struct {
	version   *version.Info
	groups    []*metav1.APIGroup
	resources []*metav1.APIResourceList
	// partial is the error of API services that did not respond; nil if there are none.
	partial error
	// tag is the ETag of the list of kinds; empty if the server sent none.
	tag          string
	capabilities *chartutil.Capabilities
	mapper       meta.RESTMapper
	// bytes is about the memory of the result.
	bytes int64
}

// kindsFlight is a running discovery. The result is set before done is closed.
type kindsFlight struct {
	expired, invalid int
	done             chan struct{}
	result           *knownKinds
	err              error
}

// newKinds returns the kinds of a cluster before discovery. It sends no request.
func newKinds(host rest.Config, transport http.RoundTripper, library *kindsLibrary) (*Kinds, error) {
	tags := &tagTransport{base: transport}
	host.Transport = tags
	live, err := discovery.NewDiscoveryClientForConfig(&host)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Kinds{host: host, live: live, tags: tags, library: library, Now: time.Now}, nil
}

// expire makes the next action discover the kinds again. Lookups still use the known kinds.
func (k *Kinds) expire() {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.expired++
}

// Invalidate makes the next action and the next lookup discover the kinds again.
func (k *Kinds) Invalidate() {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.expired++
	k.Invalid++
}

// drop frees the known kinds.
func (k *Kinds) drop() {
	k.Mu.Lock()
	k.known = nil
	k.Mu.Unlock()
	k.library.kept.remove(k)
}

// current returns the known kinds for a new action. They are not older than kindsTTL, except with anyAge. HelmOp itself
// has not changed them since their discovery.
func (k *Kinds) current(anyAge bool) (*knownKinds, error) {
	k.Mu.Lock()
	expired, invalid := k.expired, k.Invalid
	k.Mu.Unlock()
	return k.get(func(known *knownKinds) bool {
		return known.expired >= expired && known.invalid >= invalid &&
			(anyAge || k.Now().Sub(known.discoveredAt) < kindsTTL)
	})
}

// lookup returns the known kinds of any age, unless they were invalidated.
func (k *Kinds) lookup() (*knownKinds, error) {
	k.Mu.Lock()
	invalid := k.Invalid
	k.Mu.Unlock()
	return k.get(func(known *knownKinds) bool { return known.invalid >= invalid })
}

// get returns the known kinds if goodEnough accepts them, and otherwise the result of a new discovery.
func (k *Kinds) get(goodEnough func(*knownKinds) bool) (*knownKinds, error) {
	for {
		k.Mu.Lock()
		known := k.known
		if known != nil && goodEnough(known) {
			k.Mu.Unlock()
			return known, nil
		}
		flight := k.flight
		if flight == nil {
			flight = &kindsFlight{expired: k.expired, invalid: k.Invalid, done: make(chan struct{})}
			k.flight = flight
			k.Mu.Unlock()
			k.runFlight(flight, known)
			return flight.result, flight.err
		}
		k.Mu.Unlock()
		<-flight.done
		if flight.err != nil || goodEnough(flight.result) {
			return flight.result, flight.err
		}
	}
}

// runFlight runs discovery. It always completes the flight, even after a panic, because other callers wait for it.
func (k *Kinds) runFlight(flight *kindsFlight, known *knownKinds) {
	var result *knownKinds
	err := errNoKinds
	defer func() {
		k.Mu.Lock()
		flight.result, flight.err = result, err
		k.flight = nil
		k.Mu.Unlock()
		close(flight.done)
	}()
	result, err = k.discover(known)
	if err == nil {
		result.expired, result.invalid = flight.expired, flight.invalid
		result.discoveredAt = k.Now()
		k.Mu.Lock()
		k.known = result
		k.Mu.Unlock()
		k.library.kept.keep(k, result.kindsResult)
		if k.discovered != nil {
			k.discovered()
		}
	}
}

// discover returns the version and the kinds that the cluster serves. If the version is unchanged, it first checks
// whether the kinds are unchanged. The deadline of one request bounds the whole discovery, because callers wait for the
// result.
func (k *Kinds) discover(known *knownKinds) (*knownKinds, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), model.RequestTimeout, helmerr.ErrRequestDeadline)
	defer cancel()
	k.tags.received.Store(0)
	serverVersion, err := k.live.ServerVersionWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's version: %w", err)
	}
	if known != nil && known.tag != "" && *serverVersion == *known.version && k.unchanged(ctx, known.tag) {
		same := *known
		return &same, nil
	}
	documents, ok := k.fetchServed(ctx)
	if !ok {
		result, err := readServed(ctx, k.live, serverVersion)
		if k.tags.received.Load() > maxKindsBytes {
			return nil, errKindsTooLarge // An incomplete result could change what a chart renders.
		}
		if err == nil && result.partial == nil {
			result.tag = k.tags.last()
		}
		return &knownKinds{kindsResult: result}, err
	}
	digest := documents.digest(serverVersion)
	if result := k.library.find(digest); result != nil {
		return &knownKinds{kindsResult: result}, nil
	}
	result, err := documents.read(ctx, k.host, serverVersion)
	if err == nil && result.partial == nil {
		result = k.library.add(digest, result)
	}
	return &knownKinds{kindsResult: result}, err
}

// readServed reads the kinds that a cluster serves.
func readServed(ctx context.Context, from *discovery.DiscoveryClient,
	serverVersion *version.Info,
) (*kindsResult, error) {
	groups, resources, err := limitedDiscovery{from}.read(ctx)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("reading the cluster's API versions: %w", err)
	}
	read := &kindsResult{version: serverVersion, groups: groups, resources: resources, partial: err}
	apiVersions, err := action.GetVersionSet(staticDiscovery{known: read})
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("reading the cluster's API versions: %w", err)
	}
	read.capabilities = &chartutil.Capabilities{
		APIVersions: withUnanswered(apiVersions, read.partial),
		KubeVersion: chartutil.KubeVersion{Version: serverVersion.GitVersion, Major: serverVersion.Major,
			Minor: serverVersion.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	read.mapper = restmapper.NewDiscoveryRESTMapper(groupResources(groups, resources))
	read.weigh()
	return read, nil
}

// withUnanswered returns API versions with those of the API services that did not respond. Such a service is installed:
// without its version, a chart that tests for the version would omit objects, and the upgrade would delete them. Its
// kinds are unknown.
func withUnanswered(apiVersions chartutil.VersionSet, partial error) chartutil.VersionSet {
	failed, _ := discovery.GroupDiscoveryFailedErrorGroups(partial)
	all := slices.Clip(apiVersions)
	for version := range failed {
		// Older servers list the version of such a service.
		if name := version.String(); !apiVersions.Has(name) {
			all = append(all, name)
		}
	}
	return all
}

// unchanged reports whether the server's list of kinds still has the tag. It returns false if this is uncertain.
func (k *Kinds) unchanged(ctx context.Context, tag string) bool {
	url := k.live.RESTClient().Get().AbsPath("/apis").URL()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), nil)
	if err != nil {
		return false
	}
	req.Header.Set("Accept", discovery.AcceptV2)
	req.Header.Set("User-Agent", model.UserAgent)
	req.Header.Set("If-None-Match", tag)
	resp, err := k.tags.base.RoundTrip(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusNotModified
}

// staticDiscovery is a discovery client that returns a known result.
type staticDiscovery struct {
	discovery.ServerResourcesInterface
	known *kindsResult
}

// ServerGroupsAndResources implements discovery.ServerResourcesInterface.
func (d staticDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return d.known.groups, d.known.resources, d.known.partial
}

func groupResources(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []*restmapper.APIGroupResources {
	byVersion := make(map[string][]metav1.APIResource, len(lists))
	for _, list := range lists {
		byVersion[list.GroupVersion] = list.APIResources
	}
	all := make([]*restmapper.APIGroupResources, 0, len(groups))
	for _, group := range groups {
		one := &restmapper.APIGroupResources{Group: *group, VersionedResources: map[string][]metav1.APIResource{}}
		for _, groupVersion := range group.Versions {
			if resources, ok := byVersion[groupVersion.GroupVersion]; ok {
				one.VersionedResources[groupVersion.Version] = resources
			}
		}
		all = append(all, one)
	}
	return all
}

// tagTransport stores the ETag of the last list of kinds. It limits the size of the responses of a discovery.
type tagTransport struct {
	base http.RoundTripper
	// received is the number of bytes that a discovery has received.
	received atomic.Int64

	mu  sync.Mutex
	tag string
}

// RoundTrip implements http.RoundTripper.
func (t *tagTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(req.URL.Path, "/apis") {
		t.mu.Lock()
		t.tag = resp.Header.Get("ETag")
		t.mu.Unlock()
	}
	if !strings.Contains(req.URL.Path, "/openapi/") {
		resp.Body = &kindsBody{ReadCloser: resp.Body, received: &t.received}
	}
	return resp, nil
}

func (t *tagTransport) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tag
}
