// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// fleet is one Cluster with its Links.
type fleet struct {
	*testing.T
	client.Client
	links *Links
	// clock is the current time of the Links.
	clock time.Time
	// answer is the result of the next probes. handleProbe is the number of probes.
	answer      error
	handleProbe int
	added       workqueue.TypedRateLimitingInterface[ctrl.Request]
	queue       workqueue.TypedRateLimitingInterface[ctrl.Request]
}

var one = types.NamespacedName{Namespace: "fleet", Name: "one"}

// echo starts a server that answers with the received credentials, and returns its address.
var echo = sync.OnceValue(func() string {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	return server.URL
})

// tokenOf returns the token in the requests of a config.
func (f *fleet) tokenOf(config *rest.Config) string {
	f.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		f.Fatal(err)
	}
	req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, config.Host, nil)
	if err != nil {
		f.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		f.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		f.Fatal(err)
	}
	return strings.TrimPrefix(string(data), "Bearer ")
}

func newQueue(t *testing.T) workqueue.TypedRateLimitingInterface[ctrl.Request] {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(queue.ShutDown)
	return queue
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: one.Namespace, Name: one.Name, UID: "first"}}
	f := &fleet{
		T: t, Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster).Build(),
		clock: time.Unix(1e9, 0), added: newQueue(t), queue: newQueue(t),
	}
	f.links = New(Options{Clusters: f, Kubeconfigs: f, UserAgent: "test"})
	f.links.unreachableSpread, f.links.maxSilence = 0, 0
	f.links.now = func() time.Time { return f.clock }
	f.links.probe = func(context.Context, *http.Client, *rest.Config) error {
		f.handleProbe++
		return f.answer
	}
	added := f.links.Source(func(_ context.Context, obj client.Object) []ctrl.Request {
		return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
	})
	if err := errors.Join(added.Start(t.Context(), f.added), f.links.begin(t.Context(), f.queue)); err != nil {
		t.Fatal(err)
	}
	return f
}

// provision sets the fields that a link waits for.
func (f *fleet) provision(controlPlane, infrastructure bool) {
	f.Helper()
	cluster := &clusterv1.Cluster{}
	if err := f.Get(f.Context(), one, cluster); err != nil {
		f.Fatal(err)
	}
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(controlPlane)
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(infrastructure)
	if err := f.Update(f.Context(), cluster); err != nil {
		f.Fatal(err)
	}
}

func kubeconfigOf(cluster, token string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: one.Namespace, Name: cluster + "-kubeconfig"},
		Data: map[string][]byte{
			"value": fmt.Appendf(nil,
				"apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '%s', insecure-skip-tls-verify: true}}]\n"+
					"users: [{name: u, user: {token: %s}}]\ncontexts: [{name: x, context: {cluster: c, user: "+
					"u}}]\ncurrent-context: x\n",
				echo(), token),
		}}
}

// write replaces the kubeconfig. An empty token removes it.
func (f *fleet) write(token string) {
	f.Helper()
	_ = f.Delete(f.Context(), kubeconfigOf(one.Name, ""))
	if token == "" {
		return
	}
	if err := f.Create(f.Context(), kubeconfigOf(one.Name, token)); err != nil {
		f.Fatal(err)
	}
}

// writeOther replaces the kubeconfig by one with another address of the same server.
func (f *fleet) writeOther(token string) {
	f.Helper()
	f.write("")
	other := kubeconfigOf(one.Name, token)
	other.Data["value"] = bytes.ReplaceAll(other.Data["value"], []byte(echo()), []byte(echo()+"/other"))
	if err := f.Create(f.Context(), other); err != nil {
		f.Fatal(err)
	}
}

// look reconciles the Cluster. It checks that the link is open with the token, or closed if token is empty. It also
// checks whether listeners are notified, and the approximate time of the next reconciliation.
func (f *fleet) look(what, token string, notified bool, next time.Duration) {
	f.Helper()
	result, err := f.links.Reconcile(f.Context(), ctrl.Request{NamespacedName: one})
	if err != nil {
		f.Fatalf("%s: %v", what, err)
	}
	got := ""
	config, err := f.links.GetRESTConfig(f.Context(), one)
	switch {
	case err == nil:
		got = f.tokenOf(config)
	case !errors.Is(err, ErrNotConnected):
		f.Errorf("%s: error %v", what, err)
	case errors.Is(err, ErrNotTried) == f.links.State(one).IsUnreachable():
		f.Errorf("%s: error %v after %d failures", what, err, f.links.State(one).Failures)
	}
	if got != token {
		f.Errorf("%s: the link is up with %q, want %q", what, got, token)
	}
	if added := f.added.Len() > 0; added != notified {
		f.Errorf("%s: listeners are notified: %t, want %t", what, added, notified)
	}
	for f.added.Len() > 0 {
		request, _ := f.added.Get()
		f.added.Done(request)
	}
	if low, high := next*8/10, next*12/10; result.RequeueAfter < low || result.RequeueAfter > high {
		f.Errorf("%s: the next look comes after %s, want %s", what, result.RequeueAfter, next)
	}
	// Clusters that fail again and again must not delay the probes of others.
	wanted := probePriority
	if f.links.State(one).Failures >= failing {
		wanted = failingPriority
	}
	if result.Priority != nil && *result.Priority != wanted {
		f.Errorf("%s: the next look has priority %d, want %d", what, *result.Priority, wanted)
	}
}

func (f *fleet) pass(d time.Duration) { f.clock = f.clock.Add(d) }

func TestLinkIsMadeWhenClusterIsInitialized(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.write("a")
	f.look("nothing is initialized", "", false, 0)
	f.provision(true, false)
	f.look("there is no infrastructure", "", false, 0)
	if f.handleProbe != 0 || !f.links.State(one).LastTry.IsZero() {
		t.Error("the API server was asked too early")
	}
	f.provision(true, true)
	f.look("all is there", "a", true, probeInterval)
	f.look("an event in between", "a", false, probeInterval)
	if f.handleProbe != 1 {
		t.Errorf("the API server was asked %d times, want 1", f.handleProbe)
	}
	f.provision(false, true)
	f.look("the control plane is not initialized any more", "", false, 0)
	if err := f.Delete(t.Context(),
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: one.Namespace, Name: one.Name}}); err != nil {
		t.Fatal(err)
	}
	f.look("the Cluster is gone", "", false, 0)
	if len(f.links.links) > 0 {
		t.Error("a Cluster that is gone is remembered")
	}
}

func TestLinkIsReplacedWithKubeconfig(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.provision(true, true)
	f.look("there is no kubeconfig", "", false, firstRetry)
	f.write("a")
	f.look("the kubeconfig appeared, and is tried at once", "a", true, probeInterval)
	f.writeOther("b")
	f.look("the kubeconfig changed", "b", true, probeInterval)
	f.write("")
	f.look("the kubeconfig is gone, and nothing better is there", "b", false, probeInterval)
	f.writeOther("b")
	f.look("the same kubeconfig is back", "b", false, probeInterval)
	f.answer = errors.New("no")
	f.write("c")
	f.look("one that does not work", "", true, firstRetry)
	f.answer = nil
	f.look("it is not tried too early", "", false, firstRetry)
	f.pass(firstRetry)
	f.look("it works by now", "c", true, probeInterval)
	malformed := kubeconfigOf(one.Name, "c")
	malformed.Data["value"] = []byte("clusters: 1")
	f.write("")
	if err := f.Create(t.Context(), malformed); err != nil {
		t.Fatal(err)
	}
	f.look("what it replaces is used no longer", "", true, firstRetry)
}

// TestNewTokenKeepsConfig has a provider of Cluster API that renews the token in the kubeconfig. A running action keeps
// the config from its start, and must use the new token. The watches of the Cluster must not begin again.
func TestNewTokenKeepsConfig(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.provision(true, true)
	f.write("a")
	f.look("up", "a", true, probeInterval)
	kept, err := f.links.GetRESTConfig(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	f.write("b")
	f.look("a new token", "b", false, probeInterval)
	f.answer = errUnauthorized
	f.write("wrong")
	f.look("the new token is not valid", "", true, time.Millisecond)
	f.answer = nil
	f.write("c")
	f.look("a valid token", "c", true, probeInterval)
	if config, err := f.links.GetRESTConfig(t.Context(), one); err != nil || config != kept || f.tokenOf(kept) != "c" {
		t.Errorf("%v: the action has the token %q, and the config is the same: %t", err, f.tokenOf(kept), config == kept)
	}
	if f.handleProbe != 4 {
		t.Errorf("%d probes, want one for each token", f.handleProbe)
	}
	cluster := &clusterv1.Cluster{}
	if err := f.Get(t.Context(), one, cluster); err != nil {
		t.Fatal(err)
	}
	recreated := cluster.DeepCopy()
	recreated.UID, recreated.ResourceVersion = "second", ""
	if err := errors.Join(f.Delete(t.Context(), cluster), f.Create(t.Context(), recreated)); err != nil {
		t.Fatal(err)
	}
	f.write("d")
	f.look("another Cluster of the same name", "d", true, probeInterval)
	if got := f.tokenOf(kept); got != "c" {
		t.Errorf("the action in the former Cluster has the token %q", got)
	}
}

// TestReplacedKubeconfigIsAnnounced checks that a replaced kubeconfig, but not a new token, is announced, and that the
// previous config is not available then. Watches for paused releases end so.
func TestReplacedKubeconfigIsAnnounced(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	replaced := 0
	f.links.OnReplace(func(cluster client.ObjectKey) {
		replaced++
		if config, err := f.links.GetRESTConfig(t.Context(), cluster); err == nil || cluster != one {
			t.Errorf("the config of Cluster %s is %v", cluster, config)
		}
	})
	f.provision(true, true)
	f.write("a")
	f.look("up", "a", true, probeInterval)
	replaced = 0
	f.write("b")
	f.look("a new token", "b", false, probeInterval)
	f.pass(probeInterval)
	f.look("the same kubeconfig", "b", false, probeInterval)
	if replaced != 0 {
		t.Errorf("announced %d times without another kubeconfig", replaced)
	}
	f.writeOther("b")
	f.look("another kubeconfig", "b", true, probeInterval)
	if replaced != 1 {
		t.Errorf("announced %d times", replaced)
	}
}

// TestListenersAreNotifiedOfLinkThatNeverOpened has a Cluster that never responds. The first failure may be a timeout
// of a busy manager.
func TestListenersAreNotifiedOfLinkThatNeverOpened(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.provision(true, true)
	f.write("a")
	f.answer = errors.New("no")
	f.look("failure 1", "", false, firstRetry)
	f.pass(firstRetry)
	f.look("failure 2", "", true, 2*firstRetry)
	f.pass(2 * firstRetry)
	f.look("failure 3", "", false, 4*firstRetry)
}

// TestOneFailureAfterNewKubeconfigIsNotReported has an API server that restarts when its kubeconfig is replaced. The
// releases are notified of the closed link, and must not report the Cluster as unreachable after one failure.
func TestOneFailureAfterNewKubeconfigIsNotReported(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.provision(true, true)
	f.write("a")
	f.look("up", "a", true, probeInterval)
	f.answer = errors.New("no")
	f.writeOther("b")
	f.look("failure 1", "", true, firstRetry)
	if _, err := f.links.GetRESTConfig(t.Context(), one); !errors.Is(err, ErrNotTried) {
		t.Errorf("after failure 1: %v", err)
	}
	f.pass(firstRetry)
	f.look("failure 2", "", true, 2*firstRetry)
	if _, err := f.links.GetRESTConfig(t.Context(), one); errors.Is(err, ErrNotTried) {
		t.Errorf("after failure 2: %v", err)
	}
}

// TestListenersAreNotifiedWhenClusterRespondsAgain has a Cluster that responds again and whose link was never closed.
func TestListenersAreNotifiedWhenClusterRespondsAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.provision(true, true)
	f.write("a")
	f.look("up", "a", true, probeInterval)
	f.answer = errors.New("no")
	f.pass(probeInterval)
	f.look("failure 1", "a", false, confirmInterval)
	f.pass(confirmInterval)
	f.look("silence", "a", true, probeInterval)
	f.answer = nil
	f.pass(probeInterval)
	f.look("it answers", "a", true, probeInterval)
	if f.links.State(one).IsUnreachable() {
		t.Error("the Cluster is silent")
	}
}

func TestLinkIsClosedAfterFailures(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.provision(true, true)
	f.write("a")
	f.look("up", "a", true, probeInterval)
	f.answer = errors.New("no")
	f.pass(probeInterval)
	f.look("one failure may be a lost packet", "a", false, confirmInterval)
	f.answer = nil
	f.pass(confirmInterval)
	f.look("it was", "a", false, probeInterval)
	f.answer = errors.New("no")
	f.pass(probeInterval)
	f.look("failure 1", "a", false, confirmInterval)
	f.pass(confirmInterval)
	f.look("failure 2 is silence, and the link stays", "a", true, probeInterval)
	if !f.links.State(one).IsUnreachable() {
		t.Error("the Cluster is not silent")
	}
	for i := unreachableFailures; i < maxFailures-1; i++ {
		f.pass(probeInterval)
		f.look(fmt.Sprintf("failure %d", i+1), "a", false, probeInterval)
	}
	f.pass(probeInterval)
	f.look("the last failure", "", true, retryInterval)
	for range slowAfter - maxFailures - 1 {
		f.pass(retryInterval)
		f.look("still down", "", false, retryInterval)
	}
	f.pass(retryInterval)
	f.look("still down, for long", "", false, slowRetryInterval)
	f.pass(retryInterval)
	f.look("not yet again", "", false, slowRetryInterval*9/10-retryInterval)
	f.answer = nil
	f.pass(retryInterval)
	f.look("up again", "a", true, probeInterval)
	if state := f.links.State(one); state.Failures != 0 || !state.LastAnswer.Equal(f.clock) {
		t.Errorf("got %+v", state)
	}
	f.answer = errUnauthorized
	f.pass(probeInterval)
	f.look("credentials that are not accepted", "", true, time.Millisecond)
	f.answer = nil
	f.look("they are by now", "a", true, probeInterval)
}

// unread is a reader whose reads always fail.
type unread struct {
	client.Reader
	err error
}

func (u unread) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return u.err
}

// TestUnreadKubeconfigDoesNotCountAsFailure has a manager that cannot read the kubeconfig, for example because its
// cache of kubeconfigs is not filled yet. No failure of the Cluster may be reported.
func TestUnreadKubeconfigDoesNotCountAsFailure(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"the cache has not begun":  &cache.ErrCacheNotStarted{},
		"the cache is not filled":  apierrors.NewTimeoutError("failed waiting for *v1.Secret Informer to sync", 0),
		"the time is over":         context.DeadlineExceeded,
		"the read is not possible": errors.New("no"),
	} {
		f := newFleet(t)
		f.provision(true, true)
		f.write("a")
		f.links.options.Kubeconfigs = unread{err: err}
		f.look(name, "", false, firstRetry)
		if state := f.links.State(one); state != (State{}) {
			t.Errorf("%s: it counts as tried: %+v", name, state)
		}
		f.links.options.Kubeconfigs = f
		f.look(name+", and is by now", "a", true, probeInterval)
		f.links.options.Kubeconfigs = unread{err: err}
		f.pass(probeInterval)
		f.look(name+" any more, and the link is up", "a", false, probeInterval)
		if f.handleProbe != 2 {
			t.Errorf("%s: the API server was asked %d times, want 2", name, f.handleProbe)
		}
	}
}

// TestUnreadKubeconfigCountsAsFailureAfterTolerance has a manager without a permission. It must report this for the
// Clusters after a while, and must continue when it has the permission.
func TestUnreadKubeconfigCountsAsFailureAfterTolerance(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.provision(true, true)
	f.write("a")
	f.links.options.Kubeconfigs = unread{err: errors.New("secrets is forbidden")}
	f.look("unread", "", false, firstRetry)
	f.pass(unreadTolerance - time.Second)
	f.look("unread for a while", "", false, firstRetry)
	f.pass(time.Second)
	f.look("unread for long", "", false, firstRetry)
	if state := f.links.State(one); state.Failures != 1 || state.LastTry.IsZero() {
		t.Errorf("it does not count as tried: %+v", state)
	}
	f.links.options.Kubeconfigs = f
	f.look("read", "a", true, probeInterval)
}

func TestKubeconfigHandlerEnqueuesClusters(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	added := f.links.KubeconfigHandler()
	want := func(what, cluster string) {
		t.Helper()
		got := ""
		if f.queue.Len() > 0 {
			request, _ := f.queue.Get()
			f.queue.Done(request)
			got = request.Name
		}
		if got != cluster {
			t.Errorf("%s: %q is looked at, want %q", what, got, cluster)
		}
	}
	added.OnAdd(kubeconfigOf("one", "a"), false)
	want("a kubeconfig appears", "one")
	added.OnUpdate(kubeconfigOf("one", "a"), kubeconfigOf("one", "b"))
	want("a kubeconfig changes", "one")
	labelled := kubeconfigOf("one", "a")
	labelled.Labels = map[string]string{"a": "b"}
	added.OnUpdate(kubeconfigOf("one", "a"), labelled)
	want("a kubeconfig is labelled", "")
	added.OnAdd(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: one.Namespace, Name: "one-ca"}}, false)
	want("another Secret appears", "")
	added.OnDelete(kubeconfigOf("one", "a"))
	want("a kubeconfig is deleted", "")
	f.links.queue = nil
	added.OnAdd(kubeconfigOf("one", "a"), true)
}

// TestSlimSecret checks that the cache keeps kubeconfigs, and nothing else that users can make large.
func TestSlimSecret(t *testing.T) {
	t.Parallel()
	usual, large := string(kubeconfigOf("one", "a").Data["value"]), strings.Repeat("a", 1<<20)
	for name, tc := range map[string]struct{ secret, data, want string }{
		"a kubeconfig":       {"one-kubeconfig", usual, usual},
		"the largest one":    {"one-kubeconfig", large[:MaxKubeconfigBytes], large[:MaxKubeconfigBytes]},
		"a large kubeconfig": {"one-kubeconfig", large, LargeKubeconfig},
		"an authority":       {"one-ca", large, ""},
	} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet", Name: tc.secret, UID: "u", ResourceVersion: "7",
			Labels: map[string]string{large: large}, Annotations: map[string]string{large: large}, Finalizers: []string{large},
			OwnerReferences: []metav1.OwnerReference{{Name: large}}, GenerateName: large,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: large}},
		}, Type: corev1.SecretType(large), Data: map[string][]byte{"value": []byte(tc.data), large: []byte(large)}}
		got, err := SlimSecret(s)
		if err != nil {
			t.Fatal(err)
		}
		want := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: tc.secret, UID: "u", ResourceVersion: "7"}}
		if tc.want != "" {
			want.Data = map[string][]byte{"value": []byte(tc.want)}
		}
		if !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s: the cache keeps something else", name)
		}
	}
	if other, err := SlimSecret(&unstructured.Unstructured{}); err != nil || other == nil {
		t.Errorf("something else becomes %v, %v", other, err)
	}
}

func TestAskVersion(t *testing.T) {
	t.Parallel()
	for status, wellOrWhy := range map[int]error{
		http.StatusOK: nil, http.StatusForbidden: nil, http.StatusTooManyRequests: nil,
		http.StatusUnauthorized: errUnauthorized, http.StatusBadGateway: errors.New("502"),
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/behind/proxy/version" {
				status = http.StatusNotFound
			}
			w.WriteHeader(status)
		}))
		err := askVersion(t.Context(), server.Client(), &rest.Config{Host: server.URL + "/behind/proxy"})
		if (err == nil) != (wellOrWhy == nil) || errors.Is(wellOrWhy, errUnauthorized) && !errors.Is(err, errUnauthorized) {
			t.Errorf("%d: got %v", status, err)
		}
		server.Close()
	}
}
