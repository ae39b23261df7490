// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// sharedServer is the API server of the integration tests.
var sharedServer apiserver.Shared

func TestMain(m *testing.M) { os.Exit(sharedServer.Run(m)) }

// TestKindsConcurrentCallersShareDiscovery checks that concurrent callers share the result of a discovery, even if it
// is an error.
func TestKindsConcurrentCallersShareDiscovery(t *testing.T) {
	t.Parallel()
	var versions atomic.Int64
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/version") {
			versions.Add(1)
			asked <- struct{}{}
			<-answer
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(server.Close)
	kept, err := NewCluster("", &rest.Config{Host: server.URL}, NewSharedState(DefaultMemory()))
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, 8)
	var group sync.WaitGroup
	learn := func(i int) {
		group.Go(func() {
			if i%2 == 0 {
				_, errs[i] = kept.Capabilities(false, func(string, ...any) {})
				return
			}
			_, errs[i] = kept.Kinds.Mapper().RESTMapping(schema.GroupKind{Kind: "Pod"})
		})
	}
	learn(0)
	<-asked
	for i := 1; i < len(errs); i++ {
		learn(i)
	}
	// The test cannot observe that a caller waits. A late caller runs discovery again, which only makes the test weaker.
	<-time.After(50 * time.Millisecond)
	close(answer)
	group.Wait()
	for i, err := range errs {
		if err == nil {
			t.Errorf("caller %d got no error", i)
		}
	}
	// Retries of the client belong to one discovery.
	if n := versions.Load(); n >= int64(len(errs)) {
		t.Errorf("%d requests", n)
	}
}

// TestKindsFlightCompletesAfterPanic checks that callers do not wait forever after a discovery that panicked.
func TestKindsFlightCompletesAfterPanic(t *testing.T) {
	t.Parallel()
	// Without a client, discovery panics.
	k := &Kinds{Now: time.Now}
	flight := &kindsFlight{done: make(chan struct{})}
	k.flight = flight
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		k.runFlight(flight, nil)
	}()
	select {
	case <-flight.done:
	default:
		t.Fatal("the callers wait forever")
	}
	if !errors.Is(flight.err, errNoKinds) || k.flight != nil {
		t.Errorf("error %v, flight %v", flight.err, k.flight)
	}
}

// TestKindsExpiredDuringDiscovery checks that a caller after a change does not get the result of a discovery that began
// before the change.
func TestKindsExpiredDuringDiscovery(t *testing.T) {
	t.Parallel()
	k := &Kinds{Now: time.Now}
	flight := &kindsFlight{done: make(chan struct{})}
	k.flight = flight
	k.expire()
	waiting := make(chan error, 1)
	go func() {
		_, err := k.get(func(known *knownKinds) bool { return known.expired >= 1 })
		waiting <- err
	}()
	// The second discovery fails at once, so the error of the waiting caller shows that it ran.
	k.Mu.Lock()
	k.flight = &kindsFlight{done: make(chan struct{}), err: helmtest.ErrCut}
	close(k.flight.done)
	flight.result = &knownKinds{}
	close(flight.done)
	k.Mu.Unlock()
	if err := <-waiting; !errors.Is(err, helmtest.ErrCut) {
		t.Errorf("got %v", err)
	}
}

// kindsBench is a connection to a real server with its own clock.
type kindsBench struct {
	t      *testing.T
	cutter *helmtest.Cutter
	kinds  *Kinds
	mu     sync.Mutex
	at     time.Time
}

func newKindsBench(t *testing.T) *kindsBench {
	t.Helper()
	t.Parallel()
	b := &kindsBench{t: t, cutter: &helmtest.Cutter{After: -1}, at: time.Now()}
	config := sharedServer.Server(t).RESTConfig()
	config.WrapTransport = b.cutter.Wrap
	conn, err := NewPool(DefaultMemory()).Get(model.Target{Key: t.Name(), Config: config})
	if err != nil {
		t.Fatal(err)
	}
	b.kinds = conn.Kinds
	b.kinds.Now = func() time.Time {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.at
	}
	return b
}

func (b *kindsBench) wait(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = b.at.Add(d)
}

func (b *kindsBench) current() *knownKinds {
	b.t.Helper()
	known, err := b.kinds.current(false)
	if err != nil {
		b.t.Fatal(err)
	}
	return known
}

// createCRD creates a kind, as another process does, and waits until the server lists the kind.
func (b *kindsBench) createCRD(kind string) schema.GroupKind {
	b.t.Helper()
	plural, group := strings.ToLower(kind)+"s", "kinds.example.com"
	preserve := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
				},
			}},
		},
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		b.t.Fatal(err)
	}
	config := sharedServer.Server(b.t).RESTConfig()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		b.t.Fatal(err)
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	if _, err := crds.Create(b.t.Context(), &unstructured.Unstructured{Object: object},
		metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	other, err := NewCluster("", config, NewSharedState(DefaultMemory()))
	if err != nil {
		b.t.Fatal(err)
	}
	wanted := schema.GroupKind{Group: group, Kind: kind}
	for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(50 * time.Millisecond) {
		other.Kinds.Invalidate()
		if known, err := other.Kinds.lookup(); err == nil {
			if _, err := known.mapper.RESTMapping(wanted); err == nil {
				return wanted
			}
		}
		if time.Now().After(deadline) {
			b.t.Fatal("the server does not list the kind")
		}
	}
}

// TestIntegrationKindsTTL checks that discovery does not run within the TTL. After the TTL, discovery is cheap if the
// kinds are unchanged, and finds a kind of another process.
func TestIntegrationKindsTTL(t *testing.T) {
	b := newKindsBench(t)
	first := b.current()
	// Other tests delete CRDs. For a moment, the kinds of a group are then unknown, and the response has no tag.
	for deadline := time.Now().Add(2 * time.Minute); first.partial != nil &&
		time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		b.wait(kindsTTL + time.Second)
		b.cutter.Take()
		first = b.current()
	}
	if requests := b.cutter.Take(); len(requests) != 3 || first.tag == "" {
		t.Errorf("asking takes %v, tag %q", requests, first.tag)
	}
	b.wait(kindsTTL - time.Second)
	if b.current() != first || len(b.cutter.Take()) != 0 {
		t.Error("discovery within the TTL")
	}
	kind := b.createCRD("Apple")
	if b.current() != first || len(b.cutter.Take()) != 0 {
		t.Error("discovery within the TTL")
	}
	b.wait(2 * time.Second)
	second := b.current()
	if _, err := second.mapper.RESTMapping(kind); err != nil {
		t.Errorf("a new kind is not seen after the TTL: %v", err)
	}
	if !second.capabilities.APIVersions.Has("kinds.example.com/v1/Apple") {
		t.Error("the capabilities lack the new kind")
	}
	b.cutter.Take()
	b.wait(kindsTTL + time.Second)
	if known, err := b.kinds.current(true); err != nil || known != second || len(b.cutter.Take()) != 0 {
		t.Errorf("discovery for an action that may use old kinds: %v", err)
	}
	third := b.current()
	requests := b.cutter.Take()
	same := third.tag != "" && third.tag == second.tag
	if same && len(requests) != 2 {
		t.Errorf("kinds that are the same take %v", requests)
	}
	if same && third.mapper != second.mapper {
		t.Error("unchanged kinds were decoded again")
	}
}

// TestIntegrationUnknownKindRunsDiscovery checks that an object of an unknown kind starts discovery at once. Further
// objects of kinds that do not exist do not start it each time.
func TestIntegrationUnknownKindRunsDiscovery(t *testing.T) {
	b := newKindsBench(t)
	b.current()
	kind := b.createCRD("Pear")
	b.cutter.Take()
	if mapping, err := b.kinds.Mapper().RESTMapping(kind, "v1"); err != nil || mapping.Resource.Resource != "pears" {
		t.Fatalf("mapping %+v, %v", mapping, err)
	}
	if n := len(b.cutter.Take()); n == 0 || n > 4 {
		t.Errorf("%d requests", n)
	}
	missing := schema.GroupKind{Group: "kinds.example.com", Kind: "Nothing"}
	for range 10 {
		if _, err := b.kinds.Mapper().RESTMapping(missing); !meta.IsNoMatchError(err) {
			t.Errorf("got %v", err)
		}
	}
	if requests := b.cutter.Take(); len(requests) != 0 {
		t.Errorf("asked right after it was asked: %v", requests)
	}
	b.wait(UnknownKindInterval)
	if _, err := b.kinds.Mapper().RESTMapping(missing); !meta.IsNoMatchError(err) {
		t.Errorf("got %v", err)
	}
	if len(b.cutter.Take()) == 0 {
		t.Error("no discovery after the interval")
	}
}

// TestIntegrationOwnKindChangeExpiresKinds checks that after the engine changed the kinds of a cluster, the next action
// runs discovery at once.
func TestIntegrationOwnKindChangeExpiresKinds(t *testing.T) {
	b := newKindsBench(t)
	first := b.current()
	b.kinds.expire()
	if known, err := b.kinds.lookup(); err != nil || known != first {
		t.Error("lookups run discovery, too", err)
	}
	second, err := b.kinds.current(true)
	if err != nil || second == first {
		t.Errorf("the next action does not run discovery, although it may use old kinds: %v", err)
	}
	b.kinds.expire()
	if b.current() == second {
		t.Error("the next action does not run discovery")
	}
	discovery := b.kinds.discovery()
	discovery.Invalidate()
	b.cutter.Take()
	groups, resources, err := discovery.ServerGroupsAndResources()
	if err != nil || len(groups) < 10 || len(resources) < 10 || len(b.cutter.Take()) == 0 {
		t.Errorf("%d groups, %d resources, %v", len(groups), len(resources), err)
	}
	list, err := discovery.ServerResourcesForGroupVersion("apps/v1")
	if err != nil || len(list.APIResources) == 0 {
		t.Error(list, err)
	}
	if _, err := discovery.ServerResourcesForGroupVersion("nothing/v1"); err == nil {
		t.Error("an unknown version has resources")
	}
	if all, err := discovery.ServerGroups(); err != nil || len(all.Groups) != len(groups) {
		t.Error(all, err)
	}
	if preferred, err := discovery.ServerPreferredNamespacedResources(); err != nil || len(preferred) == 0 {
		t.Error(preferred, err)
	}
	if version, err := discovery.ServerVersion(); err != nil || version.Major != "1" {
		t.Error(version, err)
	}
	if requests := b.cutter.Take(); len(requests) != 0 {
		t.Errorf("what is known is asked for: %v", requests)
	}
	b.kinds.drop()
	b.current()
	if len(b.cutter.Take()) == 0 {
		t.Error("dropped kinds are known")
	}
}
