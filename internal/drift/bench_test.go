// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// sharedServer is the API server of all integration tests. Each test has its own namespace.
var sharedServer apiserver.Shared

func TestMain(m *testing.M) { os.Exit(sharedServer.Run(m)) }

// benches counts the benches.
var benches atomic.Int32

// bench gives one test access to the API server.
type bench struct {
	*testing.T
	namespace string
	release   Release
	cluster   Cluster
	human     dynamic.Interface
	requests  *requests
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	server := sharedServer.Server(t)
	// The name has a number, because a test may run more than once.
	name := fmt.Sprintf("%s-%d", strings.ToLower(t.Name()), benches.Add(1))
	b := &bench{T: t, namespace: name, release: Release{Namespace: name, Name: "demo"}, requests: &requests{}}
	config := rest.CopyConfig(server.RESTConfig())
	config.UserAgent = "kubectl-edit/1"
	var err error
	if b.human, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	b.cluster.Mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discover))
	b.cluster.Config = rest.CopyConfig(config)
	b.cluster.Config.QPS = -1
	b.cluster.Config.Timeout = 20 * time.Second
	b.cluster.Config.Wrap(b.requests.wrap)
	b.create(b.parse("{apiVersion: v1, kind: Namespace, metadata: {name: NAMESPACE}}")[0])
	// No controller creates this object, and pods need it.
	b.create(b.parse("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}")[0])
	return b
}

// parse reads objects. It replaces NAMESPACE with the namespace of the test, and sets this namespace in objects without
// one.
func (b *bench) parse(text string) []*unstructured.Unstructured {
	b.Helper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(strings.ReplaceAll(text, "NAMESPACE", b.namespace)), 4096)
	for {
		var obj unstructured.Unstructured
		if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			b.Fatal(err)
		}
		objects = append(objects, &obj)
	}
}

// resource returns a client for the resource of an object. The client acts as a user.
func (b *bench) resource(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	b.Helper()
	gvk := obj.GroupVersionKind()
	mapping, err := b.cluster.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		b.Fatal(err)
	}
	if mapping.Scope.Name() == "root" {
		return resourceClient(b.human, mapping, "")
	}
	return resourceClient(b.human, mapping, b.namespace)
}

func (b *bench) create(obj *unstructured.Unstructured) {
	b.Helper()
	if _, err := b.resource(obj).Create(b.Context(), obj, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// edit applies a JSON patch to an object as a user.
func (b *bench) edit(obj *unstructured.Unstructured, patch string) {
	b.Helper()
	options := metav1.PatchOptions{FieldManager: "kubectl-edit"}
	if _, err := b.resource(obj).Patch(b.Context(), obj.GetName(), types.JSONPatchType, []byte(patch),
		options); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) get(obj *unstructured.Unstructured) *unstructured.Unstructured {
	b.Helper()
	live, err := b.resource(obj).Get(b.Context(), obj.GetName(), metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return live
}

// compare compares objects and fails the test if one cannot be compared.
func (b *bench) compare(rules *Rules, manifest ...*unstructured.Unstructured) []Difference {
	b.Helper()
	got, err := Compare(b.Context(), b.cluster, b.release, rules, manifest)
	if err != nil || len(got.Failed) > 0 || len(got.Compared) != len(manifest) {
		b.Fatalf("compared %v, failed %v: %v", got.Compared, got.Failed, err)
	}
	return got.Differences
}

// install creates all objects, as Helm does.
func (b *bench) install(manifest ...*unstructured.Unstructured) {
	b.Helper()
	for _, difference := range b.compare(nil, manifest...) {
		if !difference.Missing {
			b.Fatalf("%s: exists", difference.Ref)
		}
		if err := Correct(b.Context(), b.cluster, difference); err != nil {
			b.Fatal(err)
		}
	}
	b.requests.reset()
}

// correct corrects exactly one difference, and checks that no other difference is left.
func (b *bench) correct(manifest ...*unstructured.Unstructured) Difference {
	b.Helper()
	differences := b.compare(nil, manifest...)
	if len(differences) != 1 {
		b.Fatalf("%d differences, want 1: %v", len(differences), differences)
	}
	if err := Correct(b.Context(), b.cluster, differences[0]); err != nil {
		b.Fatal(err)
	}
	made := b.requests.reset()
	if left := b.compare(nil, manifest...); len(left) != 0 {
		b.Fatalf("left after the correction: %v", left)
	}
	b.requests.set(made)
	return differences[0]
}

func (b *bench) wantRequests(want ...string) {
	b.Helper()
	if got := b.requests.reset(); !slices.Equal(got, want) {
		b.Errorf("requests %v, want %v", got, want)
	}
}

// waitServed waits until the API server serves a kind.
func (b *bench) waitServed(gvk schema.GroupVersionKind) {
	b.Helper()
	err := wait.PollUntilContextTimeout(b.Context(), 50*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) {
			meta.MaybeResetRESTMapper(b.cluster.Mapper)
			_, err := b.cluster.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
			return err == nil, nil
		})
	if err != nil {
		b.Fatal(err)
	}
}

// requests records methods; dry runs are recorded with a mark.
type requests struct {
	mu   sync.Mutex
	made []string
	// before, if set, is called before each request.
	before func(*http.Request) error
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		method := request.Method
		if request.URL.Query().Get("dryRun") != "" {
			method += " dry"
		}
		r.mu.Lock()
		r.made = append(r.made, method)
		before := r.before
		r.mu.Unlock()
		if before != nil {
			if err := before(request); err != nil {
				return nil, err
			}
		}
		return next.RoundTrip(request)
	})
}

func (r *requests) set(made []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = made
}

func (r *requests) reset() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	made := r.made
	r.made = nil
	return made
}

func (r *requests) setBefore(before func(*http.Request) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = before
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer returns a response of an API server.
func answer(r *http.Request, code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewBufferString(body)),
	}
}
