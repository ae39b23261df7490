// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
)

// oneDeployment is a Deployment with a value.
const oneDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}, annotations: {cidr: "{{ .Values.cidr }}"}}
    spec: {containers: [{name: app, image: app}]}
`

// patchDeployment patches the Deployment of a release as a controller or a user of the Cluster.
func (f *fixture) patchDeployment(patch string, write func(client.Object, client.Patch) error) {
	f.Helper()
	deployment := &unstructured.Unstructured{}
	deployment.SetAPIVersion("apps/v1")
	deployment.SetKind("Deployment")
	deployment.SetNamespace(f.namespace)
	deployment.SetName("app")
	f.must(write(deployment, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// makeAvailable writes the status of the Deployment, as its controller does when all Pods run.
func (f *fixture) makeAvailable(generation, replicas int) {
	f.Helper()
	f.patchDeployment(fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":%[2]d,"updatedReplicas":%[2]d,`+
		`"readyReplicas":%[2]d,"availableReplicas":%[2]d,"conditions":[{"type":"Available","status":"True"},`+
		`{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`, generation, replicas), func(object client.Object, patch client.Patch) error {
		return f.Status().Patch(f.Context(), object, patch)
	})
}

// watched waits until the watches show that a Helm revision is not healthy yet.
func (f *fixture) watched(release *addonsv1.HelmOpRelease, revision int64) {
	f.Helper()
	f.eventually(release, func(g gomega.Gomega) {
		g.Expect(release.Status.Release).To(gomega.HaveField("Revision", revision))
		g.Expect(conditions.GetMessage(release, addonsv1.HealthyCondition)).To(gomega.ContainSubstring("Deployment"))
	})
}

// TestRequestsOfARelease counts all requests of the controller and its watches for a release, until the release is
// Ready. The passes that follow the health of an action list no records. HelmOp lists them again if another program may
// have changed the release, and if a user asks for it.
func TestRequestsOfARelease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sent := map[string]int{}
	wantSent := func(what string, more map[string]int) {
		t.Helper()
		for request, count := range more {
			sent[request] += count
		}
		if got := shared.requests.in(f.namespace); !maps.Equal(got, sent) {
			t.Errorf("%s: the requests so far are %v, want %v", what, got, sent)
		}
	}
	wantList := func(what string) {
		t.Helper()
		f.Eventually(func() int { return shared.requests.in(f.namespace)["LIST secrets"] }).Should(
			gomega.Equal(sent["LIST secrets"]+1), what)
		wantSent(what, map[string]int{"LIST secrets": 1})
	}

	artifact := f.artifact("1.0.0", map[string]string{"app.yaml": oneDeployment})
	system, err := apiutil.SystemNamespace(t.Context(), f.Client)
	f.must(err)
	release := f.release(artifact, func(r *addonsv1.HelmOpRelease) {
		r.Annotations = map[string]string{addonsv1.ManagementClusterAnnotation: string(system.UID)}
	})
	f.watched(release, 1)
	f.makeAvailable(1, 1)
	f.ready(release, 1)
	// The Cluster is new, so HelmOp has listed the records of all namespaces. The namespace exists, so HelmOp searches the
	// Deployment before it creates it.
	wantSent("installation", map[string]int{"GET deployments": 1, "POST secrets": 1, "POST deployments": 1,
		"PUT secrets": 1, "WATCH deployments": 1})

	f.patchDeployment(`{"spec":{"replicas":2}}`, func(object client.Object, patch client.Patch) error {
		return f.Patch(f.Context(), object, patch)
	})
	wantList("another program changes an object")

	patch(f, f.helmOp, func() { f.helmOp.Spec.ValuesTemplate = "cidr: second" })
	digest := f.valuesDigest()
	patch(f, release, func() { release.Spec.ValuesDigest = digest })
	f.watched(release, 2)
	f.makeAvailable(3, 2)
	f.ready(release, 2)
	// The Deployment has another generation than HelmOp wrote, so HelmOp reads it.
	wantSent("upgrade of values", map[string]int{"LIST secrets": 1, "GET secrets": 1, "GET deployments": 1,
		"POST secrets": 1, "PATCH deployments": 1, "PUT secrets": 2})

	patch(f, release, func() { release.Annotations["example.com/look"] = "now" })
	wantList("a user changes the HelmOpRelease")
}

// TestLaterReleaseBeginsNoWatch checks that the release that is installed first begins the watch for all releases of
// the Cluster. The watch does not begin again when another release joins it later.
func TestLaterReleaseBeginsNoWatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		isOther bool
		// want is the path of the only watch, in which %s is the namespace of the first release.
		want string
	}{
		"in the same namespace": {false, "/apis/apps/v1/namespaces/%s/deployments"},
		"in another namespace":  {true, "/apis/apps/v1/deployments"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			first := f.artifact("1.0.0", map[string]string{"app.yaml": oneDeployment})
			second := f.artifact("2.0.0", map[string]string{"app.yaml": strings.Replace(oneDeployment,
				"name: app", "name: later", 1)})
			namespace, want := f.namespace, tc.want
			if tc.isOther {
				namespace = f.namespaceWithCluster()
			} else {
				want = fmt.Sprintf(want, namespace)
			}
			later := f.release(second, func(r *addonsv1.HelmOpRelease) {
				r.Name, r.Spec.Release = "later-one", addonsv1.ReleaseIdentity{Name: "later", Namespace: namespace}
				r.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			})
			f.watched(f.release(first, nil), 1)
			patch(f, later, func() { delete(later.Annotations, clusterv1.PausedAnnotation) })
			f.watched(later, 1)
			if got := shared.requests.watchesOf(f.namespace); !slices.Equal(got, []string{want}) {
				t.Errorf("watches of %v, want %s", got, want)
			}
		})
	}
}

// heldUninstallation is a hook of an uninstallation that ends when the test deletes the Job.
const heldUninstallation = `apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}
  annotations: {helm.sh/hook: pre-delete}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: a, image: a}]}
`

// TestRequestsOfAWaitingUninstallation counts the requests of an uninstallation that waits for a slot, because two
// uninstallations have all slots of the HelmOp. These two read their records again after each waits.RecordInterval.
func TestRequestsOfAWaitingUninstallation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.unselect()
	holding := f.artifact("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap,
		"hook.yaml": heldUninstallation})
	install := func(name string, artifact addonsv1.ResolvedArtifact) *addonsv1.HelmOpRelease {
		f.Helper()
		release := f.release(artifact, func(r *addonsv1.HelmOpRelease) { r.Name, r.Spec.Release.Name = name, name })
		f.ready(release, 1)
		return release
	}
	first, second := install("first-held", holding), install("second-held", holding)
	waiting := install("waiting", f.artifact("2.0.0", helmtest.TwoConfigMaps()))
	f.must(f.Delete(t.Context(), first))
	f.must(f.Delete(t.Context(), second))
	f.Eventually(func() int { return shared.requests.in(f.namespace)["WATCH jobs"] }).Should(gomega.Equal(2))

	// The number of GET requests depends on how long the two wait.
	counted := func() map[string]int {
		requests := shared.requests.in(f.namespace)
		delete(requests, "GET secrets")
		return requests
	}
	before := counted()
	f.must(f.Delete(t.Context(), waiting))
	f.eventually(waiting, func(g gomega.Gomega) {
		g.Expect(conditions.GetMessage(waiting, addonsv1.ReadyCondition)).To(gomega.ContainSubstring("waits for a slot"))
	})
	if got := counted(); !maps.Equal(got, before) {
		t.Errorf("without a slot: the requests so far are %v, want %v", got, before)
	}
	f.must(f.DeleteAllOf(t.Context(), &batchv1.Job{}, client.InNamespace(f.namespace),
		client.PropagationPolicy(metav1.DeletePropagationBackground)))
	for _, release := range []*addonsv1.HelmOpRelease{first, second, waiting} {
		f.gone(release)
	}
	sent := counted()
	maps.DeleteFunc(sent, func(request string, count int) bool { return count == before[request] })
	for request := range sent {
		sent[request] -= before[request]
	}
	// Each uninstallation deletes its objects and its record. Only the last one also begins: it reads the records, marks
	// the release and reads the records again.
	if want := map[string]int{"LIST secrets": 2, "PUT secrets": 1, "DELETE secrets": 3,
		"DELETE configmaps": 4}; !maps.Equal(sent, want) {
		t.Errorf("from the first slot: the requests are %v, want %v", sent, want)
	}
}

// newRelease creates another release of the HelmOp, in a namespace of its own. f has this namespace then.
func (f *fixture) newRelease(artifact addonsv1.ResolvedArtifact, suffix string) (in *fixture,
	release *addonsv1.HelmOpRelease,
) {
	f.Helper()
	system, err := apiutil.SystemNamespace(f.Context(), f.Client)
	f.must(err)
	release = f.release(artifact, func(r *addonsv1.HelmOpRelease) {
		r.Name += suffix
		r.Annotations = map[string]string{addonsv1.ManagementClusterAnnotation: string(system.UID)}
		r.Spec.Release.Namespace += suffix
	})
	other := *f
	other.namespace += suffix
	return &other, release
}

// TestRequestsOfNewReleases counts the requests for the first releases of a new Cluster, whose namespaces do not exist.
// HelmOp lists the records of the Cluster once, and not the records of any release. Meanwhile, no other test runs. On a
// slow machine, the list may not count any more when a release is installed, so one of several tries must succeed.
func TestRequestsOfNewReleases(t *testing.T) { //nolint:paralleltest // The lists of all tests have the same path.
	var errs []error
	for range 3 {
		err := requestsOfNewReleases(newFixture(t))
		if err == nil {
			return
		}
		errs = append(errs, err)
	}
	t.Fatal(errors.Join(errs...))
}

// requestsOfNewReleases installs the first releases of a new Cluster. It returns an error if HelmOp sent other requests
// than the necessary ones.
func requestsOfNewReleases(f *fixture) error {
	f.Helper()
	artifact := f.artifact("1.0.0", map[string]string{"app.yaml": oneDeployment})
	before := shared.requests.to("/api/v1/secrets")
	created := map[*fixture]*addonsv1.HelmOpRelease{}
	for _, suffix := range []string{"-a", "-b", "-c"} {
		in, release := f.newRelease(artifact, suffix)
		created[in] = release
	}
	var errs []error
	for in, release := range created {
		in.watched(release, 1)
		in.makeAvailable(1, 1)
		in.ready(release, 1)
		want := map[string]int{"POST secrets": 1, "POST deployments": 1, "PUT secrets": 1}
		got := shared.requests.in(in.namespace)
		// The watches of the releases begin together, so a watch may begin again.
		delete(got, "WATCH deployments")
		delete(got, "LIST deployments")
		if !maps.Equal(got, want) {
			errs = append(errs, fmt.Errorf("the requests for the release in %s are %v, want %v", in.namespace, got, want))
		}
	}
	if lists := shared.requests.to("/api/v1/secrets") - before; lists != 1 {
		errs = append(errs, fmt.Errorf("the records of the Cluster are listed %d times", lists))
	}
	return errors.Join(errs...)
}

// TestReleaseOfOtherOwnerInNewCluster checks that a release of another owner stays unchanged in a new Cluster, in which
// HelmOp has just found no records in the namespace of the release.
func TestReleaseOfOtherOwnerInNewCluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	artifact := f.artifact("1.0.0", helmtest.TwoConfigMaps())
	in, release := f.newRelease(artifact, "-a")
	in.ready(release, 1)

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace + "-b"}}
	f.must(f.Create(t.Context(), namespace))
	record := &corev1.Secret{Type: "helm.sh/release.v1", ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name,
		Name: "sh.helm.release.v1.cni.v7", Labels: map[string]string{"owner": "helm", "name": "cni", "version": "7",
			"status": "deployed"}}}
	f.must(f.Create(t.Context(), record))
	version := record.ResourceVersion
	in, release = f.newRelease(artifact, "-b")
	in.eventually(release, func(g gomega.Gomega) {
		g.Expect(conditions.GetReason(release, addonsv1.ReadyCondition)).To(gomega.Equal(
			addonsv1.ReleaseConflictReason))
	})
	f.must(f.Get(t.Context(), client.ObjectKeyFromObject(record), record))
	if record.ResourceVersion != version || in.records() != 1 || len(in.configMaps()) != 0 {
		t.Errorf("the record has the version %s, before %s; %d records, the ConfigMaps %v", record.ResourceVersion, version,
			in.records(), in.configMaps())
	}
}
