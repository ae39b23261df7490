// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"

	"github.com/onsi/gomega"
	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brake"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/exit"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview/fleettest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	helmrendering "github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

var update = flag.Bool("update", false, "write the golden files")

// sharedServer is the API server of the tests. No manager runs, so the tests write the status.
var sharedServer apiserver.Shared

func TestMain(m *testing.M) {
	sandbox.Serve(helmrendering.Tasks(), bundle.Tasks())
	os.Exit(sharedServer.Run(m))
}

var installation struct {
	once sync.Once
	err  error
}

// testNow is the time of the tests.
var testNow = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(testNow.Add(-d)) }

// fleetBed is a namespace with the objects of testdata/fleet.yaml and their releases.
type fleetBed struct {
	*testing.T
	client.WithWatch
	namespace, kubeconfig string

	// name replaces the namespace in golden files, because each run of a test has its own namespace.
	name string
}

var beds atomic.Int32

func newFleetBed(t *testing.T, name string) *fleetBed {
	t.Helper()
	server := sharedServer.Server(t)
	installation.once.Do(func() {
		crds := filepath.Join("..", "..", "..", "config", "crd", "bases")
		_, installation.err = envtest.InstallCRDs(server.RESTConfig(), envtest.CRDInstallOptions{
			Paths: []string{crds, sharedServer.Binaries().CoreCRDs}, ErrorIfPathMissing: true,
		})
	})
	if installation.err != nil {
		t.Fatal(installation.err)
	}
	kubeconfig, err := server.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	b := &fleetBed{T: t, namespace: fmt.Sprintf("%s-%d-x", name, beds.Add(1)), name: name,
		kubeconfig: writeFile(t, kubeconfig)}
	connection := kube.NewBase(kube.Options{})
	connection.ConfigFlags.KubeConfig = &b.kubeconfig
	c, err := connection.Connect()
	if err != nil {
		t.Fatal(err)
	}
	b.WithWatch = c.WithWatch
	b.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}})
	b.load()
	return b
}

func writeFile(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// create creates an object with its status.
func (b *fleetBed) create(object client.Object) {
	b.Helper()
	withStatus := object.DeepCopyObject().(client.Object)
	if err := b.Create(b.Context(), object); err != nil {
		b.Fatal(err)
	}
	switch object.(type) {
	case *corev1.Namespace, *corev1.Event, *addonsv1.HelmOpRevision:
		return
	}
	withStatus.SetResourceVersion(object.GetResourceVersion())
	withStatus.SetUID(object.GetUID())
	if err := b.Status().Update(b.Context(), withStatus); err != nil {
		b.Fatal(err)
	}
}

// load creates the objects of the file, the releases, the revisions and the Events.
func (b *fleetBed) load() {
	b.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "fleet.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	text := strings.NewReplacer("NAMESPACE", b.namespace,
		"CONFIRMATION", brake.Confirmation(heldSince, []string{"prod-2", "prod-3"})).Replace(string(data))
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			b.Fatal(err)
		}
		object.SetNamespace(b.namespace)
		b.create(object)
	}
	calico, ingress := b.helmOp("calico"), b.helmOp("ingress")
	b.release(calico, "canary-1", 7, ready("3.30.2", time.Hour))
	b.release(calico, "prod-1", 6, ready("3.30.1", 48*time.Hour))
	b.release(calico, "prod-2", 6, ready("3.30.1", 47*time.Hour))
	b.release(calico, "prod-3", 6, ready("3.30.1", 46*time.Hour))
	b.release(calico, "prod-4", 6, stalled)
	b.release(calico, "prod-5", 6, unreachable)
	for _, cluster := range []string{"prod-1", "prod-2", "prod-3"} {
		b.release(ingress, cluster, 1, ready("4.12.1", 24*time.Hour))
	}
	b.revision(calico, 5, "3.29.4", addonsv1.RolloutPhaseRolledBack, "the failure budget is spent")
	b.revision(calico, 6, "3.30.1", addonsv1.RolloutPhaseComplete, "")
	b.revision(calico, 7, "3.30.2", addonsv1.RolloutPhaseProgressing, "")
	b.event("one", calico, apiutil.HelmOpKind, corev1.EventTypeNormal, "RolloutStarted", "HelmOp revision 7 is rolled "+
		"out", 4)
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Name: apiutil.ChildName("calico", "prod-4")}}
	b.event("two", release, "HelmOpRelease", corev1.EventTypeWarning, "UpgradeFailed", "the hook timed out", 3)
}

func (b *fleetBed) helmOp(name string) *addonsv1.HelmOp {
	b.Helper()
	helmOp := &addonsv1.HelmOp{}
	if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, helmOp); err != nil {
		b.Fatal(err)
	}
	return helmOp
}

// ready makes a release Ready.
func ready(version string, since time.Duration) func(*addonsv1.HelmOpRelease) {
	return func(r *addonsv1.HelmOpRelease) {
		r.Status.Conditions = []metav1.Condition{
			{Type: addonsv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: addonsv1.ReadyReason,
				ObservedGeneration: 1, LastTransitionTime: ago(since), Message: "everything is in the desired state"},
		}
		r.Status.Release = &addonsv1.ReleaseObservation{Revision: 3, Status: "deployed", Chart: "calico",
			Version: version, LastDeployed: ago(since)}
		r.Status.Inventory = &addonsv1.Inventory{Revision: 3, Kinds: []addonsv1.InventoryKind{
			{APIVersion: "v1", Kind: "ConfigMap", Objects: []string{"tigera-operator/settings"}},
			{APIVersion: "apps/v1", Kind: "Deployment", Objects: []string{"tigera-operator/operator"}},
		}}
	}
}

func stalled(r *addonsv1.HelmOpRelease) {
	ready("3.30.1", time.Hour)(r)
	const message = "the upgrade of release tigera-operator/calico failed: the hook of prod-4 timed out"
	r.Status.Conditions = []metav1.Condition{
		{Type: addonsv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "UpgradeFailed", Message: message,
			ObservedGeneration: 1, LastTransitionTime: ago(3 * time.Minute)},
		{Type: addonsv1.HealthyCondition, Status: metav1.ConditionFalse, Reason: "HealthCheckFailed",
			Message:            "1 of 2 objects is not healthy: Deployment tigera-operator/operator: has failed; see it",
			LastTransitionTime: ago(2 * time.Minute)},
		{Type: addonsv1.StalledCondition, Status: metav1.ConditionTrue, Reason: "RetriesExhausted",
			LastTransitionTime: ago(2 * time.Minute)},
	}
	r.Status.Failures, r.Status.LastError = 4, message
	r.Status.History = []addonsv1.ReleaseAction{
		{Action: "Upgrade", Reason: "the spec changed", FromRevision: 3, Revision: 4, ChartVersion: "3.30.2",
			Time: ago(3 * time.Minute)},
		{Action: "Install", Revision: 1, Succeeded: true, ChartVersion: "3.30.1", Time: ago(48 * time.Hour)},
	}
	r.Status.Drift = &addonsv1.DriftStatus{Differing: 1, Objects: []addonsv1.DriftedObject{{APIVersion: "v1",
		Kind: "ConfigMap", Namespace: "tigera-operator", Name: "settings", Paths: []string{"/data/mtu"},
		Manager: "kubectl-edit"}}}
}

func unreachable(r *addonsv1.HelmOpRelease) {
	ready("3.30.1", time.Hour)(r)
	r.Status.Conditions = []metav1.Condition{
		{Type: addonsv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "ClusterUnreachable",
			Message: "the API server of Cluster prod-5 does not answer", ObservedGeneration: 1,
			LastTransitionTime: ago(10 * time.Minute)},
		{Type: addonsv1.ClusterReachableCondition, Status: metav1.ConditionFalse, Reason: "ClusterUnreachable",
			LastTransitionTime: ago(10 * time.Minute)},
	}
}

func (b *fleetBed) release(helmOp *addonsv1.HelmOp, cluster string, revision int64,
	status func(*addonsv1.HelmOpRelease),
) {
	b.Helper()
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace,
		Name: apiutil.ChildName(helmOp.Name, cluster), Labels: apiutil.ChildSelector(helmOp)}}
	ref := addonsv1.ClusterReference{Name: cluster}
	if namespace, name, ok := strings.Cut(cluster, "/"); ok {
		ref = addonsv1.ClusterReference{Namespace: namespace, Name: name}
	}
	if cluster == apiutil.ManagementTitle {
		ref = apiutil.ClusterRefOf(b.namespace, clusterlink.Management)
	}
	release.Spec = addonsv1.HelmOpReleaseSpec{
		ClusterRef:   ref,
		Release:      addonsv1.ReleaseIdentity{Name: helmOp.Name, Namespace: "tigera-operator"},
		Artifact:     addonsv1.ResolvedArtifact{URL: helmOp.Spec.Source.URL, Digest: "sha256:1111", Version: "3.30.1"},
		ValuesDigest: "sha256:bbbb", DeletionPolicy: addonsv1.DeletionPolicyUninstall,
		Rollout: &addonsv1.ReleaseRollout{Revision: revision, Reason: addonsv1.ReleaseRolloutUpdated},
	}
	if err := controllerutil.SetControllerReference(helmOp, release, b.Scheme()); err != nil {
		b.Fatal(err)
	}
	release.Status.ObservedGeneration = 1
	status(release)
	for i := range release.Status.Conditions {
		if c := &release.Status.Conditions[i]; c.Message == "" {
			c.Message = "see Ready"
		}
	}
	b.create(release)
}

func (b *fleetBed) revision(helmOp *addonsv1.HelmOp, number int64, version string, phase addonsv1.RolloutPhase,
	reason string,
) {
	b.Helper()
	revision := &addonsv1.HelmOpRevision{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace,
		Name: apiutil.RevisionName(helmOp.Name, number), Labels: apiutil.ChildSelector(helmOp)}}
	revision.Spec = addonsv1.HelmOpRevisionSpec{Number: number, Digest: "d", HelmOp: *helmOp.Spec.DeepCopy(),
		Artifact: &addonsv1.ResolvedArtifact{URL: helmOp.Spec.Source.URL, Version: version,
			Digest: "sha256:" + strings.Repeat(version[len(version)-1:], 64)}}
	revision.Status = addonsv1.HelmOpRevisionStatus{Phase: phase, Reason: reason,
		StartedAt: ago(time.Duration(8-number) * 24 * time.Hour), Good: phase == addonsv1.RolloutPhaseComplete}
	b.create(revision)
}

func (b *fleetBed) event(name string, about client.Object, kind, eventType, reason, message string, minutes int) {
	b.Helper()
	at := ago(time.Duration(minutes) * time.Minute)
	b.create(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: addonsv1.GroupVersion.String(), Kind: kind,
			Namespace: b.namespace, Name: about.GetName(), UID: about.GetUID()},
		Type: eventType, Reason: reason, Message: message, FirstTimestamp: at, LastTimestamp: at, Count: 1,
	})
}

// result is the result of a command.
type result struct {
	out, errOut string
	err         error
}

// run runs a command as the administrator.
func (b *fleetBed) run(args ...string) result { return b.runAs(b.Context(), b.kubeconfig, "", args...) }

func (b *fleetBed) runAs(ctx context.Context, kubeconfig, stdin string, args ...string) result {
	b.Helper()
	var out, errOut bytes.Buffer
	err := b.execute(ctx, kubeconfig, genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out,
		ErrOut: &errOut}, args...)
	// The recommended commands contain the flag.
	shorten := strings.NewReplacer(" --kubeconfig="+kubeconfig, "")
	return result{shorten.Replace(out.String()), shorten.Replace(errOut.String()), err}
}

func (b *fleetBed) execute(ctx context.Context, kubeconfig string, streams genericiooptions.IOStreams,
	args ...string,
) error {
	root := &cobra.Command{Use: "kubectl-helmop", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(kube.Options{Streams: streams, Program: "kubectl helmop",
		Now: func() time.Time { return testNow }})...)
	root.SetArgs(append(args, "--kubeconfig", kubeconfig, "-n", b.namespace))
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	return root.ExecuteContext(ctx)
}

// ok runs a command that must succeed.
func (b *fleetBed) ok(args ...string) string {
	b.Helper()
	got := b.run(args...)
	if got.err != nil {
		b.Fatalf("%q: %v\n%s", args, got.err, got.errOut)
	}
	return got.out
}

// fails runs a command that must fail with a text in the error.
func (b *fleetBed) fails(text string, args ...string) {
	b.Helper()
	got := b.run(args...)
	if got.err == nil || !strings.Contains(got.err.Error(), text) {
		b.Errorf("%q: got the error %v, want one with %q\n%s", args, got.err, text, got.out)
	}
}

// compare compares an output with a golden file.
func (b *fleetBed) compare(golden, got string) {
	b.Helper()
	compare(b.T, golden, strings.ReplaceAll(got, b.namespace, b.name))
}

// compare compares an output with a golden file.
func compare(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// TestLook compares the whole output of each command that only reads.
func TestLook(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "fleet")
	for name, args := range map[string][]string{
		"status":            {"status"},
		"status-no-fold":    {"status", "calico", "--no-fold"},
		"status-wide":       {"status", "calico", "-o", "wide", "-l", "region=eu"},
		"status-state":      {"status", "--state", "stalled,Unreachable", "--no-headers"},
		"status-wave":       {"status", "--wave", "canary"},
		"status-no-wave":    {"status", "calico", "--wave", ""},
		"status-some-waves": {"status", "calico", "--wave", "canary,", "--no-headers"},
		"status-cluster":    {"status", "--cluster", "prod-1"},
		"status-json":       {"status", "ingress", "--cluster", "prod-1", "-o", "json"},
		"status-yaml":       {"status", "ingress", "--cluster", "prod-1", "-o", "yaml"},
		"status-name":       {"status", "calico", "--state", "Stalled", "-o", "name"},
		"describe":          {"describe", "calico"},
		"describe-held":     {"describe", "ingress"},
		"describe-cluster":  {"describe", "calico", "--cluster", "prod-4"},
		"tree":              {"tree", "calico"},
		"tree-cluster":      {"tree", "calico", "--cluster", "canary-1"},
		"events":            {"events", "calico"},
		"events-warnings":   {"events", "calico", "--cluster", "prod-4", "--types=Warning"},
		"events-normal":     {"events", "calico", "--types", "Normal"},
		"history":           {"history", "calico"},
		"history-wide":      {"rollout", "history", "calico", "-o", "wide"},
		"history-cluster":   {"history", "calico", "--cluster", "prod-4"},
		"history-json":      {"history", "calico", "--cluster", "prod-4", "-o", "json"},
		"get-releases": {"get", "releases", "calico", "-l", "!absent", "--sort-by", ".spec.clusterRef.name", "-o",
			"custom-columns=CLUSTER:.spec.clusterRef.name,VERSION:.status.release.version"},
		"get-revisions":  {"get", "hoprv", "calico", "ingress", "-o", "name"},
		"get-helmops":    {"get", "helmops", "calico", "ingress", "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name}{"\n"}{end}`},
		"tree-json":      {"tree", "calico", "--cluster", "canary-1", "-o", "json"},
		"versions":       {"versions"},
		"rollout-status": {"rollout", "status", "calico", "--watch=false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := *b
			inner.T = t
			inner.compare(name, inner.ok(args...))
		})
	}
}

// TestGet prints tables that the API server computes. Ages change, so the test compares only some columns.
func TestGet(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "get")
	for want, args := range map[string][]string{
		"NAME READY REASON":   {"get"},
		"NAME CLUSTER READY":  {"get", "hopr", "calico"},
		"NAME HELMOP HELMOP-": {"get", "revisions", "--no-headers=false", "-o", "wide"},
		"NAMESPACE NAME":      {"get", "-A"},
	} {
		if got := strings.Join(strings.Fields(b.ok(args...)), " "); !strings.HasPrefix(got, want) ||
			!strings.Contains(got, "calico") {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
	if got := b.ok("get", "releases", "ingress", "--no-headers"); strings.Contains(got, "calico-") ||
		!strings.Contains(got, "ingress-prod-1") {
		t.Errorf("got %q", got)
	}
}

// TestEscapes has a message that would change the title of a terminal.
func TestEscapes(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "escapes")
	b.setStatus("prod-4", func(r *addonsv1.HelmOpRelease) {
		for i := range r.Status.Conditions {
			r.Status.Conditions[i].Message = "Deployment tigera-operator/operator: \x1b]0;x\a"
		}
	})
	b.observe("calico", func(s *addonsv1.HelmOpStatus) { s.Rollout.WaitingFor = "\x1b]0;x\a" })
	for _, args := range [][]string{{"status"}, {"status", "-o", "json"}, {"status", "-o", "yaml"}, {"describe", "calico"},
		{"describe", "calico", "--cluster", "prod-4"}, {"tree", "calico"}, {"rollout", "status", "calico", "--watch=false"},
		{"retry", "calico", "--wait", "--timeout", "1s"}} {
		if got := b.run(args...); strings.Contains(got.out+got.errOut, "\x1b") ||
			!strings.Contains(got.out, "]0;x") && got.err == nil {
			t.Errorf("%q: got %+v", args, got)
		}
	}
}

// TestRefusals checks that errors contain the next step for the user.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "refusals")
	b.fails(`there is no HelmOp "kalico" in namespace "refusals-`, "describe", "kalico")
	if got := b.run("describe", "kalico"); !apierrors.IsNotFound(got.err) {
		t.Errorf("%v is not a NotFound error", got.err)
	}
	b.fails(`there is no HelmOp "kalico"`, "status", "kalico")
	b.fails(`there is no HelmOp "kalico"`, "versions", "calico", "kalico")
	b.fails(`there is no HelmOp "kalico"`, "rollout", "status", "kalico")
	b.fails(`HelmOp "calico" has no release in Cluster "prod-9"`, "describe", "calico", "--cluster", "prod-9")
	b.fails(`--state "Sad" is unknown; use some of Stalled, Failed`, "status", "--state", "Sad")
	b.fails(`--selector`, "status", "-l", "==")
	b.fails(`--output "xml" is unknown`, "status", "-o", "xml")
	b.fails("cannot be used with -o json", "status", "-o", "json", "--live")
	b.fails("cannot be used together", "status", "--exit-code", "--live")
	b.fails(`--output "name" is unknown; use wide, json or yaml`, "history", "calico", "-o", "name")
	b.fails("cannot be used with -o json", "events", "calico", "-w", "-o", "json")
	b.fails(`"calico" is not a kind; use helmops, releases or revisions`, "get", "calico")
	b.fails("cannot be used together", "get", "releases", "calico", "-A")
	b.fails(`there is no HelmOp "kalico"`, "get", "releases", "kalico")
	b.fails(`"kalico" not found`, "get", "helmops", "kalico")
	if code := exit.Code(b.run("get", "helmops", "kalico").err); code != exit.NotFound {
		t.Errorf("get helmops kalico: exit code %d", code)
	}
	b.fails("--selector", "get", "releases", "calico", "-l", "==")
	b.fails("unable to match a printer", "get", "-o", "xml")
	b.fails(`--types "Bad" is unknown; use some of Normal, Warning`, "events", "calico", "--types", "Bad")
	b.fails(`--dry-run "client" is unknown`, "pause", "calico", "--dry-run", "client")
	b.fails("no deletions wait", "confirm", "calico")
	b.fails("is Progressing, so there is nothing to continue", "rollout", "continue", "calico")
	b.fails("is Complete, so there is nothing to abort", "rollout", "abort", "ingress")
	b.fails("no waves", "rollout", "promote", "ingress")
	b.fails(`no wave "kanary"; the waves are canary, europe`, "rollout", "promote", "calico", "--wave", "kanary")
	b.fails("no spec.rollout", "rollout", "pause", "ingress")
	b.fails("there is no HelmOp revision 9; the existing ones are 5, 6, 7", "rollout", "undo", "calico", "--to-revision",
		"9")
	b.fails("timed out after 1ms", "rollout", "status", "calico", "--timeout", "1ms")
	b.fails("no HelmOp has a Cluster for the Cluster typo; check", "status", "--exit-code", "--cluster", "prod-1,typo")
	if got := b.run("status", "--exit-code"); got.err == nil || got.err.Error() != kube.ErrUnhealthy.Error() {
		t.Errorf("got %v", got.err)
	}
	// A gate that checks nothing must not pass.
	empty := *b
	empty.namespace = "nowhere"
	for _, args := range [][]string{{"status", "--exit-code"}, {"bill"}} {
		if got := empty.run(args...); !errors.Is(got.err, kube.ErrResultFailed) ||
			!strings.Contains(got.err.Error(), "there are no HelmOps") {
			t.Errorf("%q: got %v", args, got.err)
		}
	}
}

// TestRights runs commands as a user with few permissions.
func TestRights(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "rights")
	kubeconfig, err := sharedServer.Server(t).UserKubeconfig("jane")
	if err != nil {
		t.Fatal(err)
	}
	got := b.runAs(t.Context(), writeFile(t, kubeconfig), "", "status")
	want := `access denied: User "jane" cannot list resource "helmops" in API group "addons.cluster.x-k8s.io" in ` +
		`the namespace "` + b.namespace + `". Ask an administrator of the management cluster for this right`
	if got.err == nil || got.err.Error() != want || !apierrors.IsForbidden(got.err) {
		t.Errorf("got %v", got.err)
	}
	if got := b.runAs(t.Context(), writeFile(t, kubeconfig), "", "get"); got.err == nil || got.err.Error() != want ||
		exit.Code(got.err) != exit.Denied {
		t.Errorf("get: got %v", got.err)
	}
}

// TestReadOnly runs commands as a user who has permission to read, but not to write.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "readonly")
	path := b.reader("joe", []string{"get", "list"})
	status := b.runAs(t.Context(), path, "", "status", "calico")
	if status.err != nil || !strings.Contains(status.out, "prod-4") || strings.Contains(status.out, "prod-6") ||
		!strings.Contains(status.errOut, "Clusters without a release are not shown") {
		t.Errorf("%+v", status)
	}
	for _, args := range [][]string{{"pause", "calico"}, {"rollout", "undo", "calico"}, {"status", "-w"}} {
		got := b.runAs(t.Context(), path, "", args...)
		if got.err == nil || !strings.HasPrefix(got.err.Error(), `access denied: User "joe" cannot `) ||
			!apierrors.IsForbidden(got.err) {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// TestStatusOfUnlistedClusters runs status as a user who may list the Clusters of only one namespace. If a filter needs
// the labels of other Clusters, the command must fail: their rows would be missing.
func TestStatusOfUnlistedClusters(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "unlisted")
	monitoring := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "monitoring"},
		Spec: *b.helmOp("calico").Spec.DeepCopy()}
	monitoring.Spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{AuthorizationServiceAccountName: "installer"}
	b.create(monitoring)
	b.release(monitoring, "canary-1", 1, ready("3.30.2", time.Hour))
	b.release(monitoring, "tenant/prod-1", 1, stalled)
	verbs := []string{"get", "list", "watch"}
	path := b.reader("jill", verbs, rbacv1.PolicyRule{APIGroups: []string{clusterv1.GroupVersion.Group},
		Resources: []string{"clusters"}, Verbs: verbs})
	for _, args := range [][]string{{"--wave", "canary"}, {"-l", "stage=canary"}, {"--wave", "canary", "-w"}} {
		got := b.runAs(t.Context(), path, "", append([]string{"status", "monitoring"}, args...)...)
		if !apierrors.IsForbidden(got.err) || got.out != "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
	got := b.runAs(t.Context(), path, "", "status", "monitoring")
	if got.err != nil || !strings.Contains(got.out, "tenant/prod-1") ||
		!strings.Contains(got.errOut, "Clusters of other namespaces without a release are not shown") {
		t.Errorf("%+v", got)
	}
	if got := b.runAs(t.Context(), path, "", "status", "calico", "--wave", "canary"); got.err != nil ||
		!strings.Contains(got.out, "canary-1") {
		t.Errorf("a HelmOp without Clusters of other namespaces: %+v", got)
	}
	s := &status{Base: kube.NewBase(kube.Options{}), Filter: fleetview.Filter{HelmOps: []string{"monitoring"},
		Waves: []string{"canary"}}}
	s.ConfigFlags.KubeConfig = &path
	c, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	c.Namespace = b.namespace
	if err := s.runLive(t.Context(), c, nil); !apierrors.IsForbidden(err) {
		t.Errorf("--live: got %v", err)
	}
}

// reader returns a kubeconfig of a user who may read the objects of HelmOp in the namespace with some verbs, and has
// further rights there.
func (b *fleetBed) reader(user string, verbs []string, rules ...rbacv1.PolicyRule) string {
	b.Helper()
	server := sharedServer.Server(b.T)
	admin, err := kubernetes.NewForConfig(server.RESTConfig())
	if err != nil {
		b.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: append(rules, rbacv1.PolicyRule{
		APIGroups: []string{addonsv1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: verbs})}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}
	if _, err := admin.RbacV1().Roles(b.namespace).Create(b.Context(), role, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	if _, err := admin.RbacV1().RoleBindings(b.namespace).Create(b.Context(), binding,
		metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	if err := server.WaitAllowed(b.Context(), user, authorizationv1.ResourceAttributes{Namespace: b.namespace,
		Group: addonsv1.GroupVersion.Group, Resource: "helmops", Verb: "list"}); err != nil {
		b.Fatal(err)
	}
	kubeconfig, err := server.UserKubeconfig(user)
	if err != nil {
		b.Fatal(err)
	}
	return writeFile(b.T, kubeconfig)
}

// TestExplain checks the texts of errors that a test server does not return.
func TestExplain(t *testing.T) {
	t.Parallel()
	resource := addonsv1.GroupVersion.WithResource("helmops").GroupResource()
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"not installed": {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "calico",
			"404 page not found", 0, true), "HelmOp is not installed in this cluster"},
		"unauthorized": {apierrors.NewUnauthorized("no"), "refuses the credentials"},
		"conflict":     {apierrors.NewConflict(resource, "calico", errors.New("changed")), "repeat the command"},
		"another":      {errors.New("another"), "another"},
		"no context":   {clientcmd.ErrEmptyConfig, "no management cluster is configured"},
	} {
		got := kube.Explain(tc.err)
		if !strings.Contains(got.Error(), tc.want) || !errors.Is(got, tc.err) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestWrites checks what each command writes.
func TestWrites(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "writes")
	const at = "2026-11-25T12:00:00.000Z"
	annotation := func(key string) string { return b.helmOp("calico").Annotations[key] }

	if got := b.ok("pause", "calico", "ingress", "--dry-run=server"); got !=
		"helmop.addons.cluster.x-k8s.io/calico paused (server dry run)\n"+
			"helmop.addons.cluster.x-k8s.io/ingress paused (server dry run)\n" || b.helmOp("calico").Spec.Paused {
		t.Errorf("%s", got)
	}
	b.ok("pause", "calico")
	if !b.helmOp("calico").Spec.Paused {
		t.Error("not paused")
	}
	b.fails("it is paused, so a request has no effect", "rollout", "promote", "calico")
	b.fails("it is paused, so a request has no effect", "retry", "calico", "--cluster", "prod-4")
	b.ok("resume", "calico")
	b.observe("calico", nil)
	if b.helmOp("calico").Spec.Paused {
		t.Error("paused")
	}

	b.ok("reconcile", "calico")
	b.ok("retry", "calico")
	if annotation(addonsv1.ResolveRequestedAtAnnotation) != at || annotation(addonsv1.RetryRequestedAtAnnotation) != at {
		t.Errorf("%v", b.helmOp("calico").Annotations)
	}
	b.ok("retry", "calico", "--cluster", "prod-4")
	release := &addonsv1.HelmOpRelease{}
	if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: apiutil.ChildName("calico", "prod-4")},
		release); err != nil || release.Annotations[addonsv1.RetryRequestedAtAnnotation] != at {
		t.Errorf("%v, %v", release.Annotations, err)
	}

	pinned := func() string {
		if err := b.Get(t.Context(), client.ObjectKeyFromObject(release), release); err != nil {
			t.Fatal(err)
		}
		return release.Annotations[addonsv1.PinnedRevisionAnnotation]
	}
	b.fails(`required flag(s) "cluster" not set`, "rollback", "calico", "--to", "6")
	b.fails("there is no HelmOp revision 99; the existing ones are", "rollback", "calico", "--cluster", "prod-4", "--to",
		"99")
	b.ok("unpin", "calico", "--cluster", "prod-4")
	b.ok("rollback", "calico", "--cluster", "prod-4", "--to", "6", "--dry-run=server")
	if got := pinned(); got != "" {
		t.Errorf("a dry run pinned to %q", got)
	}
	if b.ok("rollback", "calico", "--cluster", "prod-4", "--to", "6"); pinned() != "6" {
		t.Errorf("pinned to %q", pinned())
	}
	if b.ok("unpin", "calico", "--cluster", "prod-4"); pinned() != "" {
		t.Errorf("still pinned to %q", pinned())
	}

	b.ok("rollout", "promote", "calico")
	if got := annotation(addonsv1.RolloutPromoteAnnotation); got != "7/canary" {
		t.Errorf("promoted %q", got)
	}
	b.ok("rollout", "pause", "calico")
	b.observe("calico", nil)
	if !b.helmOp("calico").Spec.Rollout.Paused {
		t.Error("the rollout is not paused")
	}
	b.ok("rollout", "resume", "calico")
	b.observe("calico", func(s *addonsv1.HelmOpStatus) { s.Rollout.Phase = addonsv1.RolloutPhasePaused })
	for _, want := range []string{"7", "7/2"} {
		b.ok("rollout", "continue", "calico")
		if got := annotation(addonsv1.RolloutContinueAnnotation); got != want {
			t.Errorf("continued with %q, want %q", got, want)
		}
	}
	b.ok("rollout", "abort", "calico")
	if got := annotation(addonsv1.RolloutAbortAnnotation); got != "7" {
		t.Errorf("aborted with %q", got)
	}
}

// TestUndo checks that undo writes the spec of a revision, with the digest and with the current rollout.
func TestUndo(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "undo")
	helmOp := b.helmOp("calico")
	helmOp.Spec.Values.Raw = []byte(`{"tigeraOperator":{"registry":"ghcr.io"}}`)
	helmOp.Spec.Rollout.MinReadySeconds = 9
	if err := b.Update(t.Context(), helmOp); err != nil {
		t.Fatal(err)
	}
	if got := b.ok("rollout", "undo", "calico", "--dry-run=server"); !strings.Contains(got, "HelmOp revision 6 restored") {
		t.Errorf("%s", got)
	}
	if got := b.helmOp("calico"); string(got.Spec.Values.Raw) != string(helmOp.Spec.Values.Raw) {
		t.Errorf("a dry run wrote %s", got.Spec.Values.Raw)
	}
	b.ok("rollout", "undo", "calico")
	got := b.helmOp("calico").Spec
	if string(got.Values.Raw) != `{"removed":null,"tigeraOperator":{"registry":"quay.io"}}` ||
		got.Source.Ref != (addonsv1.ArtifactReference{Digest: "sha256:" + strings.Repeat("1", 64)}) ||
		got.Rollout.MinReadySeconds != 9 {
		t.Errorf("%s, %+v, %+v", got.Values.Raw, got.Source.Ref, got.Rollout)
	}
}

// awaitApproval makes the rollout of the HelmOp calico wait for the approval of a digest.
func (b *fleetBed) awaitApproval(digest string) {
	b.Helper()
	b.observe("calico", func(s *addonsv1.HelmOpStatus) {
		r := s.Rollout
		r.Updated, r.Done, s.Clusters.UpToDate, s.Failures = 0, 0, 0, nil
		r.WaitingFor = "the approval of HelmOp revision 7 (kubectl helmop approve calico -n fleet): kubectl -n fleet " +
			"annotate helmops.addons.cluster.x-k8s.io calico --overwrite addons.cluster.x-k8s.io/rollout-approve=7/" + digest
		r.Approval = &addonsv1.RolloutApproval{Revision: 7, Digest: digest, Waiting: 6}
		for i := range s.Conditions {
			if s.Conditions[i].Type == addonsv1.ReadyCondition {
				s.Conditions[i].Reason = addonsv1.WaitingForApprovalReason
				s.Conditions[i].Message = "HelmOp revision 7 waits for an approval: it changes the releases in 6 of 7 Clusters"
			}
		}
	})
}

// TestApprove checks that the command prints the waiting digest, a summary and a question.
func TestApprove(t *testing.T) {
	t.Parallel()
	const digest = "5e8d1f0a9b3c4d2e8f7061a2b3c4d5e6"
	b := newFleetBed(t, "approve")
	b.fails("spec.rollout.approval is not Required", "approve", "calico")
	b.awaitApproval(digest)
	b.compare("approve-status", b.ok("status", "calico")+"\n"+b.ok("rollout", "status", "calico", "--watch=false"))
	b.compare("approve-describe", b.ok("describe", "calico"))
	no := b.runAs(t.Context(), b.kubeconfig, "n\n", "approve", "calico")
	dry := b.run("approve", "calico", "--dry-run=server")
	approval := func() string { return b.helmOp("calico").Annotations[addonsv1.RolloutApproveAnnotation] }
	if no.err == nil || dry.err != nil || approval() != "" {
		t.Errorf("approved %q: %+v, %+v", approval(), no, dry)
	}
	b.compare("approve", no.out+no.errOut+dry.out+dry.errOut)
	b.fails("the present digest of HelmOp revision 7 is "+digest, "approve", "calico", "--yes", "--digest=5e8d")
	if yes := b.runAs(t.Context(), b.kubeconfig, "y\n", "approve", "calico"); yes.err != nil {
		t.Error(yes.err)
	}
	if got := approval(); got != "7/"+digest {
		t.Errorf("approved with %q", got)
	}
	b.fails("timed out after 10ms", "approve", "calico", "--yes", "--wait", "--timeout=10ms", "--digest", digest)
}

// heldSince is the time since which the deletions of the fixture wait.
var heldSince = time.Date(2026, 11, 25, 11, 0, 0, 0, time.UTC)

// TestConfirm checks that the command prints the deletions and a question.
func TestConfirm(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "confirm")
	no := b.runAs(t.Context(), b.kubeconfig, "n\n", "confirm", "ingress")
	if no.err == nil || b.helmOp("ingress").Annotations[addonsv1.ConfirmDeletionsAnnotation] != "" {
		t.Errorf("%+v", no)
	}
	b.compare("confirm", no.out+no.errOut)
	if yes := b.runAs(t.Context(), b.kubeconfig, "yes\n", "confirm", "ingress"); yes.err != nil {
		t.Error(yes.err)
	}
	want := brake.Confirmation(heldSince, []string{"prod-2", "prod-3"})
	if got := b.helmOp("ingress").Annotations[addonsv1.ConfirmDeletionsAnnotation]; got != want {
		t.Errorf("confirmed with %q", got)
	}
}

// TestConfirmWithoutList has other releases than the manager saw. The command must then print the message of the
// HelmOp.
func TestConfirmWithoutList(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "unlisted")
	b.observe("ingress", func(s *addonsv1.HelmOpStatus) {
		s.Deletions.Waiting = 3
		s.Deletions.Confirmation = brake.Confirmation(heldSince, []string{"prod-2", "prod-3", "tenant/prod-9"})
	})
	got := b.run("confirm", "ingress", "--dry-run=server")
	b.compare("confirm-without-list", got.out+got.errOut)
	if got.err != nil {
		t.Error(got.err)
	}
}

// TestConfirmOtherNamespaces checks that the command confirm names the waiting release of a Cluster whose namespace is
// no longer selected. There are also releases that the manager does not delete.
func TestConfirmOtherNamespaces(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "roaming")
	tenant := b.namespace + "-tenant"
	b.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	ingress := b.helmOp("ingress")
	cluster := func(namespace, name string, change func(*unstructured.Unstructured)) {
		object := apiutil.NewCluster()
		object.SetNamespace(namespace)
		object.SetName(name)
		if err := unstructured.SetNestedField(object.Object, false, "spec", "paused"); err != nil {
			t.Fatal(err)
		}
		change(object)
		if err := b.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	cluster(tenant, "roaming", func(c *unstructured.Unstructured) { c.SetLabels(map[string]string{"ingress": "nginx"}) })
	cluster(b.namespace, "paused", func(c *unstructured.Unstructured) {
		c.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
	})
	cluster(b.namespace, "sharded", func(c *unstructured.Unstructured) {
		c.SetLabels(map[string]string{addonsv1.ShardLabel: "b"})
	})
	cluster(b.namespace, "foreign", func(*unstructured.Unstructured) {})
	for _, name := range []string{tenant + "/roaming", "paused", "sharded", "gone"} {
		b.release(ingress, name, 1, ready("4.12.1", time.Hour))
	}
	b.release(ingress, "foreign", 1, func(r *addonsv1.HelmOpRelease) { r.Status.State = string(model.StateForeign) })
	confirmation := brake.Confirmation(heldSince, []string{"paused", "prod-2", "prod-3", tenant + "/roaming"})
	b.observe("ingress", func(s *addonsv1.HelmOpStatus) {
		s.Deletions.Waiting, s.Deletions.Confirmation = 4, confirmation
	})
	if got := b.ok("confirm", "ingress", "--yes"); !strings.Contains(got, tenant+"/roaming ") ||
		!strings.HasPrefix(got, "The deletion of 4 releases waits") {
		t.Errorf("%s", got)
	}
	if got := b.helmOp("ingress").Annotations[addonsv1.ConfirmDeletionsAnnotation]; got != confirmation {
		t.Errorf("confirmed with %q", got)
	}
}

// TestConfirmInManagementCluster takes the value from the message of the release.
func TestConfirmInManagementCluster(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "management")
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "state"}}
	helmOp.Spec.ManagementCluster = &addonsv1.ManagementCluster{ImpersonateServiceAccountName: "admin"}
	helmOp.Spec.Source = addonsv1.ArtifactSource{URL: "oci://registry.example.com/state",
		Ref: addonsv1.ArtifactReference{Tag: "production"}}
	b.create(helmOp)
	b.release(b.helmOp("state"), apiutil.ManagementTitle, 1, func(r *addonsv1.HelmOpRelease) {
		r.Status.Conditions = []metav1.Condition{{Type: addonsv1.ReadyCondition, Status: metav1.ConditionFalse,
			Reason: "ConfirmationRequired", LastTransitionTime: ago(time.Minute),
			Message: "the upgrade would delete Cluster prod-1. Correct the artifact, or confirm: kubectl -n ns " +
				"annotate helmops.addons.cluster.x-k8s.io state --overwrite addons.cluster.x-k8s.io/confirm-deletions=1-abc"}}
	})
	if got := b.ok("confirm", "state", "--yes"); got != "the upgrade would delete Cluster prod-1. Correct the artifact, "+
		"or confirm\nhelmop.addons.cluster.x-k8s.io/state deletions confirmed\n" {
		t.Errorf("%s", got)
	}
	if got := b.helmOp("state").Annotations[addonsv1.ConfirmDeletionsAnnotation]; got != "1-abc" {
		t.Errorf("confirmed with %q", got)
	}

	// The HelmOp now selects Clusters, so its release in the management cluster is being uninstalled.
	helmOp = b.helmOp("state")
	helmOp.Annotations = nil
	helmOp.Spec.ManagementCluster, helmOp.Spec.ClusterSelector = nil, &metav1.LabelSelector{}
	if err := b.Update(t.Context(), helmOp); err != nil {
		t.Fatal(err)
	}
	b.ok("confirm", "state", "--yes")
	if got := b.helmOp("state").Annotations[addonsv1.ConfirmDeletionsAnnotation]; got != "1-abc" {
		t.Errorf("the uninstallation is confirmed with %q", got)
	}
}

// observe replaces the manager: it sets the current generation as observed.
func (b *fleetBed) observe(name string, change func(*addonsv1.HelmOpStatus)) {
	b.Helper()
	helmOp := b.helmOp(name)
	helmOp.Status.ObservedGeneration = helmOp.Generation
	if change != nil {
		change(&helmOp.Status)
	}
	for i := range helmOp.Status.Conditions {
		helmOp.Status.Conditions[i].ObservedGeneration = helmOp.Generation
	}
	if err := b.Status().Update(b.Context(), helmOp); err != nil {
		b.Fatal(err)
	}
}

// TestWait follows a promotion until the wave ends.
func TestWait(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "wait")
	var out, errOut lockedBuffer
	ended := make(chan error)
	go func() {
		ended <- b.execute(t.Context(), b.kubeconfig, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out,
			ErrOut: &errOut}, "rollout", "promote", "calico", "--wait")
	}()
	eventually(t, &errOut, "waiting for the promotion of wave canary\n")
	b.observe("calico", func(s *addonsv1.HelmOpStatus) { s.Rollout.Wave, s.Rollout.WaitingFor = "europe", "" })
	if err := <-ended; err != nil || out.String() !=
		"helmop.addons.cluster.x-k8s.io/calico wave canary of HelmOp revision 7 promoted\n" {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestWaitForSeveral checks that the command requests all HelmOps before the first wait, even if one HelmOp does not
// exist.
func TestWaitForSeveral(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "several")
	b.observe("ingress", func(s *addonsv1.HelmOpStatus) {
		paused := fleettest.Condition("Paused=True/Paused")
		paused.LastTransitionTime = ago(0)
		s.Conditions = append(s.Conditions, paused)
	})
	var out, errOut lockedBuffer
	err := b.execute(t.Context(), b.kubeconfig, genericiooptions.IOStreams{Out: &out, ErrOut: &errOut},
		"pause", "missing", "calico", "ingress", "--wait", "--timeout", "20s")
	if err == nil || !strings.Contains(err.Error(), `there is no HelmOp "missing"`) ||
		!strings.Contains(err.Error(), `HelmOp "calico": timed out after 20s waiting for the condition Paused`) ||
		strings.Contains(err.Error(), "ingress") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"calico", "ingress"} {
		if !b.helmOp(name).Spec.Paused {
			t.Errorf("%s is not paused", name)
		}
	}
}

// TestWaitForContinue waits for the revision.
func TestWaitForContinue(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "continued")
	b.observe("calico", func(s *addonsv1.HelmOpStatus) { s.Rollout.Phase = addonsv1.RolloutPhasePaused })
	var out, errOut lockedBuffer
	ended := make(chan error)
	go func() {
		ended <- b.execute(t.Context(), b.kubeconfig, genericiooptions.IOStreams{Out: &out, ErrOut: &errOut},
			"rollout", "continue", "calico", "--wait")
	}()
	eventually(t, &errOut, "calico: waiting for the manager to continue the rollout\n")
	revision := &addonsv1.HelmOpRevision{}
	if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: apiutil.RevisionName("calico", 7)},
		revision); err != nil {
		t.Fatal(err)
	}
	revision.Status.LastContinueRequest = "7"
	if err := b.Update(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestWaitForReplacedRequests replaces requests by those of another user before the manager handles them.
func TestWaitForReplacedRequests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args            []string
		waits           string
		annotation, new string
		want            string
	}{
		"continue": {[]string{"rollout", "continue", "calico", "--wait"}, "calico: waiting for the manager to continue",
			addonsv1.RolloutContinueAnnotation, "7/2", ""},
		"retry": {[]string{"retry", "calico", "--wait"}, "calico: waiting for 1 Cluster: prod-4",
			addonsv1.RetryRequestedAtAnnotation, "later", "the retry failed in 1 Cluster: prod-4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFleetBed(t, "replaced-"+name)
			b.observe("calico", func(s *addonsv1.HelmOpStatus) { s.Rollout.Phase = addonsv1.RolloutPhasePaused })
			var out, errOut lockedBuffer
			ended := make(chan error)
			go func() {
				ended <- b.execute(t.Context(), b.kubeconfig, genericiooptions.IOStreams{Out: &out, ErrOut: &errOut},
					append(tc.args, "--timeout=30s")...)
			}()
			eventually(t, &errOut, tc.waits)
			helmOp := b.helmOp("calico")
			helmOp.Annotations[tc.annotation] = tc.new
			if err := b.Update(t.Context(), helmOp); err != nil {
				t.Fatal(err)
			}
			revision := &addonsv1.HelmOpRevision{}
			if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: apiutil.RevisionName("calico", 7)},
				revision); err != nil {
				t.Fatal(err)
			}
			revision.Status.LastContinueRequest = tc.new
			if err := b.Update(t.Context(), revision); err != nil {
				t.Fatal(err)
			}
			b.setStatus("prod-4", func(r *addonsv1.HelmOpRelease) { r.Status.LastRetryRequest = tc.new })
			if got := fmt.Sprint(<-ended); tc.want == "" && got != "<nil>" || !strings.Contains(got, tc.want) {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestWaitForRetry has a release that fails again, and a release whose Cluster does not respond.
func TestWaitForRetry(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "retry")
	var out, errOut lockedBuffer
	ended := make(chan error)
	go func() {
		ended <- b.execute(t.Context(), b.kubeconfig, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out,
			ErrOut: &errOut}, "retry", "calico", "--wait")
	}()
	eventually(t, &errOut, "calico: not waiting for 1 Cluster: prod-5 (Unreachable)\n")
	eventually(t, &errOut, "calico: waiting for 1 Cluster: prod-4 (UpgradeFailed)\n")
	b.setStatus("prod-4", func(r *addonsv1.HelmOpRelease) { r.Status.LastRetryRequest = "2026-11-25T12:00:00.000Z" })
	if err := <-ended; err == nil ||
		err.Error() != `HelmOp "calico": the retry failed in 1 Cluster: prod-4; see "kubectl helmop `+
			`describe calico -n `+b.namespace+` --cluster prod-4 --kubeconfig=`+b.kubeconfig+`"` {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestWaitForRetryTimesOut checks that the command prints the error of the release after the timeout.
func TestWaitForRetryTimesOut(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "late")
	got := b.run("retry", "calico", "--wait", "--timeout", "20s")
	want := `HelmOp "calico": timed out after 20s waiting for 1 Cluster: prod-4 (UpgradeFailed); the last error is of ` +
		"Cluster prod-4: the upgrade of release tigera-operator/calico failed: the hook of prod-4 timed out"
	if got.err == nil || got.err.Error() != want {
		t.Errorf("got %v", got.err)
	}
	if got := b.run("retry", "ingress", "--wait"); got.err != nil ||
		!strings.Contains(got.errOut, "ingress: no release is Failed or Stalled") {
		t.Errorf("%+v", got)
	}
}

func (b *fleetBed) setStatus(cluster string, change func(*addonsv1.HelmOpRelease)) {
	b.Helper()
	release := &addonsv1.HelmOpRelease{}
	if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: apiutil.ChildName("calico", cluster)},
		release); err != nil {
		b.Fatal(err)
	}
	change(release)
	if err := b.Status().Update(b.Context(), release); err != nil {
		b.Fatal(err)
	}
}

// TestStatusWatch checks that each change prints a line, and that there are no other lines. Without a terminal, --live
// must do the same.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-w", "--live"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			watchStatus(t, flag)
		})
	}
}

func watchStatus(t *testing.T, flag string) {
	t.Helper()
	b := newFleetBed(t, "watched")
	out, end := b.watch("status", "calico", flag)
	eventually(t, out, "CLUSTER")
	before := out.String()
	b.setStatus("prod-5", ready("3.30.2", 0))
	eventually(t, out, "0s")
	b.observe("calico", func(s *addonsv1.HelmOpStatus) { s.Rollout.Wave, s.Rollout.WaitingFor = "europe", "2 Clusters" })
	eventually(t, out, "waits for 2 Clusters")
	end()
	lines := strings.TrimPrefix(out.String(), before)
	b.compare("status-watch", strings.ReplaceAll(lines, " --kubeconfig="+b.kubeconfig, ""))
}

// TestStatusWatchOfNewCluster checks that status -w finds a Cluster that is created, or gets into the filter, later.
func TestStatusWatchOfNewCluster(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "watchednew")
	out, end := b.watch("status", "calico", "-w", "--wave", "canary")
	eventually(t, out, "CLUSTER")
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "canary-2", Namespace: b.namespace,
		Labels: map[string]string{"cni": "calico", "stage": "canary"}}}
	cluster.Spec.Paused = new(bool)
	b.create(cluster)
	b.release(b.helmOp("calico"), "canary-2", 1, stalled)
	eventually(t, out, "canary-2")
	moved := &clusterv1.Cluster{}
	if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "prod-4"}, moved); err != nil {
		t.Fatal(err)
	}
	moved.Labels["stage"] = "canary"
	if err := b.Update(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	eventually(t, out, "\ncalico   prod-4 ")
	end()
}

// TestEventsWatch checks that each new Event of the filter prints a line, and that there are no other lines.
func TestEventsWatch(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "eventswatched")
	calico := b.helmOp("calico")
	out, end := b.watch("events", "calico", "--types=Warning", "-w")
	eventually(t, out, "the hook timed out")
	before := out.String()
	b.event("later-normal", calico, apiutil.HelmOpKind, corev1.EventTypeNormal, "RolloutStarted", "not chosen", 0)
	b.event("later-warning", calico, apiutil.HelmOpKind, corev1.EventTypeWarning, "ReleasesFailed", "1 of 6 failed", 0)
	eventually(t, out, "1 of 6 failed")
	end()
	if lines := strings.TrimPrefix(out.String(), before); strings.Count(lines, "\n") != 1 ||
		!strings.Contains(lines, "helmop/calico") {
		t.Errorf("got %q after the list", lines)
	}
}

// watch runs a command in the background and returns its output. end ends the command. The command must not fail.
func (b *fleetBed) watch(args ...string) (out *lockedBuffer, end func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	out = &lockedBuffer{}
	ended := make(chan error, 1)
	go func() {
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: &lockedBuffer{}}
		ended <- b.execute(ctx, b.kubeconfig, streams, args...)
	}()
	return out, func() {
		b.Helper()
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}

func eventually(t *testing.T, buffer *lockedBuffer, text string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(buffer.String, 2*time.Minute, 10*time.Millisecond).
		Should(gomega.ContainSubstring(text))
}

// lockedBuffer is a buffer that a command writes while the test reads it.
type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.String()
}

// TestCompletion completes names of HelmOps and Clusters.
func TestCompletion(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "completion")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"describe", "ca"}, "calico\n:4\n"},
		{[]string{"rollout", "promote", ""}, "calico\ningress\n:4\n"},
		{[]string{"describe", "calico", "--cluster", "ca"}, "canary-1\n:4\n"},
		{[]string{"describe", "-n", b.namespace[:len(b.namespace)-1]}, b.namespace + "\n:4\n"},
		{[]string{"status", "--state", "St"}, strings.ReplaceAll(fleetview.StateNames(), ", ", "\n") + "\n:4\n"},
	} {
		last := len(tc.args) - 1
		args := append([]string{"__complete"}, tc.args[:last]...)
		flags := []string{"--kubeconfig=" + b.kubeconfig, "--namespace=" + b.namespace}
		args = slices.Concat(args[:2], flags, args[2:])
		if tc.args[0] == "rollout" {
			args = []string{"__complete", "rollout", "promote", "--kubeconfig=" + b.kubeconfig, "--namespace=" + b.namespace}
		}
		var out bytes.Buffer
		root := &cobra.Command{Use: "kubectl-helmop"}
		root.AddCommand(Commands(kube.Options{Program: "kubectl helmop"})...)
		root.SetArgs(append(args, tc.args[last]))
		root.SetOut(&out)
		root.SetErr(&bytes.Buffer{})
		if err := root.ExecuteContext(t.Context()); err != nil || out.String() != tc.want {
			t.Errorf("%q: %v\n%s", tc.args, err, out.String())
		}
	}
}
