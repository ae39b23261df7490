// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestBootstrapMove takes over an installation by clusterctl and moves the objects of the desired state to another
// management cluster by clusterctl move. It continues there, and removes the first installation. It follows
// docs/bootstrap.md.
func TestBootstrapMove(t *testing.T) {
	begin(t)
	options := environment.Options{NoManager: true, Controllers: podControllers}
	from := newBootstrapScenarioIn(t, ownEnvironment(t, options))
	options.Beside, options.NoInstall, options.NoCharts = from.env, true, true
	other := ownEnvironment(t, options)
	to := *from
	to.scenario = &scenario{T: t, Gomega: from.Gomega, env: other, client: other.Client, namespace: from.namespace}
	program, err := suite.binary()
	from.must(err)
	images := map[string]string{firstImage: program,
		from.deployment(t.Context(), from.Gomega).Spec.Template.Spec.Containers[0].Image: program}
	from.runPods(images)
	to.runPods(images)
	// Runs before the managers are stopped.
	t.Cleanup(to.empty)
	hello := from.newHelmOp("hello", forAll)
	var one *workload

	from.step("takes over an installation by clusterctl", func(s *bootstrapScenario) {
		s.takesOver()
	})
	from.step("creates a Cluster and a HelmOp from the desired state", func(s *bootstrapScenario) {
		s.pushObjects(append(s.clusterObjects("one"), hello)...)
		one = s.workload("one")
		one.eventuallyReleased(hello, releaseNamespace, "hello", 1)
		s.eventually(s.helmOp(stateHelmOp), condition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
	})
	from.step("prepares another management cluster with the output of --export", func(s *bootstrapScenario) {
		target := to.beside(s)
		target.exported()
	})
	from.step("does not create moved objects again",
		func(s *bootstrapScenario) { s.movesTo(to.beside(s), one.in(s.scenario)) })
	from.step("continues in the other management cluster", func(s *bootstrapScenario) {
		target := to.beside(s)
		// The export was applied with paused HelmOps; applying it again resumes the desired state.
		target.applyExport()
		result := target.bootstrap("--image", firstImage)
		s.Expect(result.ClusterState.Pushed).To(gomega.BeFalse())
		target.eventually(target.helmOp(stateHelmOp), ready(1))
		target.eventually(hello, ready(1))
		one.in(target.scenario).eventuallyRevisions(releaseNamespace, "hello", "1 deployed")
		target.managementCluster().eventuallyRevisions(environment.Namespace, stateHelmOp, "1 deployed")
	})
	from.step("removes HelmOp from the first management cluster", func(s *bootstrapScenario) { s.removesItself() })
	from.step("the other management cluster keeps working", func(s *bootstrapScenario) {
		target := to.beside(s)
		hello.Spec.Values = helloValues(greeting("moved"))
		target.pushObjects(append(target.clusterObjects("one"), hello)...)
		one.in(target.scenario).eventuallyReleased(hello, releaseNamespace, "hello", 2)
		// The scenario deletes its objects when it ends, and HelmOp must not create them again.
		target.remove(target.helmOp(stateHelmOp))
		target.eventuallyGone(target.helmOp(stateHelmOp))
	})
}

// beside returns the scenario in this management cluster for a part of another management cluster's scenario.
func (s *bootstrapScenario) beside(part *bootstrapScenario) *bootstrapScenario {
	now := *s
	now.scenario = s.in(part.T)
	return &now
}

// clusterObjects returns the objects of a Cluster, as a user writes them.
func (s *bootstrapScenario) clusterObjects(name string) []client.Object {
	return s.env.Management.ClusterObjects(testbed.ClusterOptions{Namespace: s.namespace, Name: name,
		PodCIDRs: []string{"10.1.0.0/16"}})
}

// pushObjects pushes objects as the desired state of the cluster.
func (s *bootstrapScenario) pushObjects(objects ...client.Object) {
	s.Helper()
	s.must(os.RemoveAll(s.path("state")))
	for i, object := range objects {
		kind, err := apiutil.GVKForObject(object, s.client.Scheme())
		s.must(err)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		s.must(err)
		delete(content, "status")
		written := &unstructured.Unstructured{Object: content}
		written.SetGroupVersionKind(kind)
		text, err := yaml.Marshal(written.Object)
		s.must(err)
		s.file(fmt.Sprintf("state/clusters/production/%d.yaml", i), text)
	}
	s.pushState()
}

// takesOver runs the command in a cluster where clusterctl has installed HelmOp, and removes HelmOp from clusterctl's
// inventory.
func (s *bootstrapScenario) takesOver() {
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.deployment(ctx, g).Status.ReadyReplicas).To(gomega.BeEquivalentTo(1))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.bootstrap("--image", firstImage)
	s.eventuallyImage(firstImage)
	s.eventually(s.helmOp(providerHelmOp), ready(1))
	s.eventually(s.helmOp(stateHelmOp), ready(1))
	s.managementCluster().eventuallyRevisions(environment.Namespace, providerHelmOp, "1 deployed")
	planned := func() string {
		out, err := s.env.Management.Clusterctl(s.Context(), "upgrade", "plan")
		s.must(err)
		return out.Stdout
	}
	s.Expect(planned()).To(gomega.ContainSubstring("addon-helmop"))
	s.kubectl("-n", environment.Namespace, "delete", "providers.clusterctl.cluster.x-k8s.io", "addon-helmop")
	s.Expect(planned()).NotTo(gomega.ContainSubstring("addon-helmop"))
}

// kubectl runs kubectl as the administrator, and expects it to succeed.
func (s *bootstrapScenario) kubectl(args ...string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	out, err := s.env.Management.Kubectl(ctx, args...)
	s.must(err)
	return out.Stdout
}

// exported applies the output of --export, and checks that the command then changes nothing.
func (s *bootstrapScenario) exported() {
	_, err := s.env.Management.InstallCore(s.Context())
	s.must(err)
	text := s.applyExport("--pause")
	s.eventuallyImage(firstImage)
	s.eventually(s.helmOp(providerHelmOp), ready(1))
	s.eventually(s.helmOp(stateHelmOp), condition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason))
	before := s.applied(text)
	s.bootstrap("--image", firstImage, "--pause")
	for object, content := range s.applied(text) {
		s.Expect(content).To(gomega.Equal(before[object]), "the command does not change %s", object)
	}
	_, started := s.kubelet.PIDs("")
	s.Expect(started).To(gomega.Equal(1), "the command restarts nothing")
	s.expectNoCluster()
}

// applyExport applies the output of --export by kubectl, and returns it.
func (s *bootstrapScenario) applyExport(args ...string) string {
	s.Helper()
	code, text, stderr := s.run("writer.json",
		slices.Concat(s.bootstrapArgs(), []string{"--image", firstImage, "--export"}, args)...)
	s.Expect(code).To(gomega.Equal(0), stderr)
	s.file("export.yaml", []byte(text))
	s.Eventually(func(ctx context.Context) error {
		// The first run returns an error, because the kinds that it defines are not served yet.
		_, err := s.env.Management.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", s.path("export.yaml"))
		return err
	}).WithContext(s.Context()).Should(gomega.Succeed())
	return text
}

// applied returns the current objects of a text, without the fields that each write or HelmOp itself changes.
func (s *bootstrapScenario) applied(text string) map[string]string {
	s.Helper()
	found := map[string]string{}
	for _, part := range strings.Split(text, "---\n") {
		object := &unstructured.Unstructured{}
		s.must(yaml.Unmarshal([]byte(part), &object.Object))
		if len(object.Object) == 0 {
			continue
		}
		s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(object), object))
		delete(object.Object, "status")
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		annotations := object.GetAnnotations()
		// The command sets this annotation to resolve the tags at once.
		if delete(annotations, addonsv1.ResolveRequestedAtAnnotation); len(annotations) == 0 {
			annotations = nil
		}
		object.SetAnnotations(annotations)
		if object.GetKind() == "HelmOp" {
			object.SetGeneration(0)
		}
		found[object.GetKind()+" "+object.GetName()] = toJSON(object)
	}
	s.Expect(len(found)).To(gomega.BeNumerically(">", 10))
	return found
}

// expectNoCluster fails if the scenario's namespace has a Cluster now or gets one soon.
func (s *bootstrapScenario) expectNoCluster() {
	s.Helper()
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		list := &clusterv1.ClusterList{}
		g.Expect(s.client.List(ctx, list, client.InNamespace(s.namespace))).To(gomega.Succeed())
		g.Expect(list.Items).To(gomega.BeEmpty())
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// movesTo moves the namespace to another management cluster, without pausing the desired state before.
func (s *bootstrapScenario) movesTo(target *bootstrapScenario, one *workload) {
	for _, name := range []string{environment.CredentialsSecret, environment.CASecret} {
		update(s.scenario, s.secret(name), func(o *corev1.Secret) { o.Labels = map[string]string{moveLabel: ""} })
	}
	before, err := one.contents(s.Context())
	s.must(err)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	out, err := s.env.Management.Clusterctl(ctx, "move", "--namespace", s.namespace, "--to-kubeconfig",
		target.env.Management.KubeconfigFile())
	s.must(err)
	s.Log(out.Stderr)
	hello := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "hello"}}
	target.eventually(hello, ready(1))
	s.eventuallyGone(hello)
	system := s.inNamespace(environment.Namespace)
	// The Event names the object that was missing first: the Cluster, or an object that belongs to the Cluster.
	s.Expect(system.eventuallyEventText("HelmOp", stateHelmOp, corev1.EventTypeWarning, addonsv1.ObjectsMovedEvent)).To(
		gomega.MatchRegexp("clusterctl move moved .*(Cluster|LocalCluster|LocalControlPlane) " + s.namespace +
			"/one.* to another management cluster"))
	system.child(s.helmOp(stateHelmOp), "management-cluster",
		childCondition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(conditions.GetMessage(child, addonsv1.PausedCondition)).To(gomega.ContainSubstring("clusterctl move moved"))
		})
	s.expectNoCluster()
	// The Cluster is not created even if the manager restarts with empty caches and a new state was pushed.
	more := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "more"}}
	s.pushObjects(append(s.clusterObjects("one"), s.newHelmOp("hello", forAll), more)...)
	s.kubectl("-n", environment.Namespace, "delete", "pods", "--all")
	s.eventuallyImage(firstImage)
	s.expectNoCluster()
	after, err := one.contents(s.Context())
	s.must(err)
	s.Expect(after).To(gomega.Equal(before))
}

// removesItself removes HelmOp as docs/bootstrap.md describes.
func (s *bootstrapScenario) removesItself() {
	s.kubectl("-n", environment.Namespace, "delete", "helmop", stateHelmOp, providerHelmOp, "--wait=false")
	// The provider's release is not paused and may be deleted meanwhile; kubectl would report an error if it were named.
	s.kubectl("-n", environment.Namespace, "annotate", "helmopreleases", "-l", addonsv1.HelmOpNameLabel+"="+stateHelmOp,
		"cluster.x-k8s.io/paused-")
	s.kubectl("-n", environment.Namespace, "wait", "--for=delete", "--timeout="+patience.String(), "helmop/"+stateHelmOp,
		"helmop/"+providerHelmOp)
	s.kubectl("delete", "helmops", "--all", "--all-namespaces")
	code, text, stderr := s.run("writer.json", append(s.bootstrapArgs(), "--export")...)
	s.Expect(code).To(gomega.Equal(0), stderr)
	s.file("export.yaml", []byte(text))
	s.kubectl("delete", "-f", s.path("export.yaml"), "--ignore-not-found")
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	s.must(s.client.List(s.Context(), crds))
	for _, crd := range crds.Items {
		// Cluster API has kinds in the group, too.
		s.Expect(crd.Name).NotTo(gomega.HavePrefix("helmop"))
	}
	roles := &rbacv1.ClusterRoleBindingList{}
	s.must(s.client.List(s.Context(), roles))
	for _, role := range roles.Items {
		s.Expect(role.Name).NotTo(gomega.HavePrefix("helmop-"))
	}
	err := s.client.Get(s.Context(), client.ObjectKey{Name: environment.Namespace}, &corev1.Namespace{})
	s.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)
}
