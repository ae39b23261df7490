// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
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
	// kindsTTL is how long the kinds that a cluster serves are taken for known by actions that begin. It spans a burst of
	// charts on a new cluster. Kinds that appear by this package's own doing are seen at once, and so is a kind that
	// an object is of; a chart which only asks whether a kind exists may miss, for this long, one that came otherwise.
	kindsTTL = time.Minute
	// UnknownKindInterval is the least time between two discoveries because of an unknown kind: a chart may hold many
	// objects of kinds that the cluster does not serve.
	UnknownKindInterval = 2 * time.Second
)

// errNoKinds is the answer where asking came to no end.
var errNoKinds = errors.New("reading the cluster's API versions did not end")

// Kinds is what a cluster serves: its version, its kinds and their resources. A caller that finds the kinds missing or
// outdated runs discovery; concurrent callers wait for that result, even if it is an error. It is safe for concurrent
// use.
type Kinds struct {
	host    rest.Config
	live    *discovery.DiscoveryClient
	tags    *tagTransport
	library *kindsLibrary
	Now     func() time.Time
	// learned, if set, is called whenever something was learned.
	learned func()

	Mu sync.Mutex
	// known is nil until something is known.
	known *knownKinds
	// expired counts the reasons to ask again before an action begins, invalid those to ask before anything is looked up.
	expired, Invalid int
	flight           *kindsFlight
	UnknownAt        time.Time
}

// knownKinds is one answer of the cluster. It is read only.
type knownKinds struct {
	// expired and invalid are the counts of kinds when the cluster was asked, learnedAt is when it answered.
	expired, invalid int
	learnedAt        time.Time
	*kindsAnswer
}

// kindsAnswer is the discovery result of a cluster, or of several clusters with the same result. It is read only.
type kindsAnswer struct {
	version   *version.Info
	groups    []*metav1.APIGroup
	resources []*metav1.APIResourceList
	// partial is the error of API services which did not answer.
	partial error
	// tag identifies the answer to the server, empty where the server gave none.
	tag          string
	capabilities *chartutil.Capabilities
	mapper       meta.RESTMapper
}

// kindsFlight is a question under way. The result is there once done is closed.
type kindsFlight struct {
	expired, invalid int
	done             chan struct{}
	result           *knownKinds
	err              error
}

// newKinds returns the kinds of a cluster before discovery; it sends no request.
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

// Invalidate makes the next action and the next lookup ask the cluster again.
func (k *Kinds) Invalidate() {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.expired++
	k.Invalid++
}

// drop frees the known kinds.
func (k *Kinds) drop() {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.known = nil
}

// current returns the known kinds for a new action: no older than kindsTTL.
func (k *Kinds) current() (*knownKinds, error) {
	k.Mu.Lock()
	expired, invalid := k.expired, k.Invalid
	k.Mu.Unlock()
	return k.learn(func(known *knownKinds) bool {
		return known.expired >= expired && known.invalid >= invalid && k.Now().Sub(known.learnedAt) < kindsTTL
	})
}

// lookup returns the known kinds of any age, unless they were invalidated.
func (k *Kinds) lookup() (*knownKinds, error) {
	k.Mu.Lock()
	invalid := k.Invalid
	k.Mu.Unlock()
	return k.learn(func(known *knownKinds) bool { return known.invalid >= invalid })
}

// learn returns the known kinds if they are good enough, otherwise the result of discovery.
func (k *Kinds) learn(goodEnough func(*knownKinds) bool) (*knownKinds, error) {
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
			k.fly(flight, known)
			return flight.result, flight.err
		}
		k.Mu.Unlock()
		<-flight.done
		if flight.err != nil || goodEnough(flight.result) {
			return flight.result, flight.err
		}
	}
}

// fly runs discovery. It always completes the flight, even after a panic over the response, because others wait for it.
func (k *Kinds) fly(flight *kindsFlight, known *knownKinds) {
	var result *knownKinds
	err := errNoKinds
	defer func() {
		k.Mu.Lock()
		flight.result, flight.err = result, err
		if err == nil {
			k.known = result
		}
		k.flight = nil
		k.Mu.Unlock()
		close(flight.done)
	}()
	result, err = k.ask(known)
	if err == nil {
		result.expired, result.invalid = flight.expired, flight.invalid
		result.learnedAt = k.Now()
		if k.learned != nil {
			k.learned()
		}
	}
}

// ask discovers what the cluster serves: first its version and, if that is unchanged, whether the kinds are unchanged.
// All of it takes no longer than the deadline of one request, because callers wait.
func (k *Kinds) ask(known *knownKinds) (*knownKinds, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), model.RequestTimeout, helmerr.ErrRequestDeadline)
	defer cancel()
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
		answer, err := readServed(ctx, k.live, serverVersion)
		if err == nil && answer.partial == nil {
			answer.tag = k.tags.last()
		}
		return &knownKinds{kindsAnswer: answer}, err
	}
	digest := documents.digest(serverVersion)
	if answer := k.library.find(digest); answer != nil {
		return &knownKinds{kindsAnswer: answer}, nil
	}
	answer, err := documents.read(ctx, k.host, serverVersion)
	if err == nil && answer.partial == nil {
		answer = k.library.add(digest, answer)
	}
	return &knownKinds{kindsAnswer: answer}, err
}

// readServed reads the kinds that a cluster serves.
func readServed(ctx context.Context, from *discovery.DiscoveryClient,
	serverVersion *version.Info,
) (*kindsAnswer, error) {
	groups, resources, err := from.ServerGroupsAndResourcesWithContext(ctx)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("reading the cluster's API versions: %w", err)
	}
	read := &kindsAnswer{version: serverVersion, groups: groups, resources: resources, partial: err}
	answer := answeredDiscovery{known: read}
	apiVersions, err := action.GetVersionSet(answer)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("reading the cluster's API versions: %w", err)
	}
	read.capabilities = &chartutil.Capabilities{
		APIVersions: apiVersions,
		KubeVersion: chartutil.KubeVersion{Version: serverVersion.GitVersion, Major: serverVersion.Major,
			Minor: serverVersion.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	read.mapper = restmapper.NewDiscoveryRESTMapper(groupResources(groups, resources))
	return read, nil
}

// unchanged asks the server whether its kinds still have the tag. It returns false if this is uncertain.
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

// answeredDiscovery is a discovery client that returns a known result.
type answeredDiscovery struct {
	discovery.ServerResourcesInterface
	known *kindsAnswer
}

// ServerGroupsAndResources implements discovery.ServerResourcesInterface.
func (d answeredDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
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

// tagTransport notes the tag that the server gave to its last list of kinds.
type tagTransport struct {
	base http.RoundTripper

	mu  sync.Mutex
	tag string
}

// RoundTrip implements http.RoundTripper.
func (t *tagTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err == nil && strings.HasSuffix(req.URL.Path, "/apis") {
		t.mu.Lock()
		t.tag = resp.Header.Get("ETag")
		t.mu.Unlock()
	}
	return resp, err
}

func (t *tagTransport) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tag
}
