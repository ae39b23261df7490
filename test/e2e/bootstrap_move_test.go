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

// TestBootstrapMove takes over an installation by clusterctl, moves what the desired state consists of to another
// management cluster by clusterctl move, goes on there, and removes the first installation, each as docs/bootstrap.md
// has it.
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
	// Before the managers end.
	t.Cleanup(to.empty)
	hello := from.newHelmOp("hello", forAll)
	var one *workload

	from.step("an installation by clusterctl is taken over", func(s *bootstrapScenario) {
		s.takesOver()
	})
	from.step("the desired state makes a Cluster and a HelmOp", func(s *bootstrapScenario) {
		s.pushObjects(append(s.clusterObjects("one"), hello)...)
		one = s.workload("one")
		one.eventuallyReleased(hello, releaseNamespace, "hello", 1)
		s.eventually(s.helmOp(stateHelmOp), condition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
	})
	from.step("another management cluster is prepared by what --export prints", func(s *bootstrapScenario) {
		there := to.beside(s)
		there.exported()
	})
	from.step("what is moved is not made again",
		func(s *bootstrapScenario) { s.movesTo(to.beside(s), one.in(s.scenario)) })
	from.step("the other management cluster goes on", func(s *bootstrapScenario) {
		there := to.beside(s)
		// Who has applied that it is suspended, applies that it is not.
		there.applyExport()
		result := there.bootstrap("--image", firstImage)
		s.Expect(result.ClusterState.Pushed).To(gomega.BeFalse())
		there.eventually(there.helmOp(stateHelmOp), ready(1))
		there.eventually(hello, ready(1))
		one.in(there.scenario).eventuallyRevisions(releaseNamespace, "hello", "1 deployed")
		there.managementCluster().eventuallyRevisions(environment.Namespace, stateHelmOp, "1 deployed")
	})
	from.step("the first one is removed", func(s *bootstrapScenario) { s.removesItself() })
	from.step("and the other one has noticed nothing", func(s *bootstrapScenario) {
		there := to.beside(s)
		hello.Spec.Values = helloValues(greeting("moved"))
		there.pushObjects(append(there.clusterObjects("one"), hello)...)
		one.in(there.scenario).eventuallyReleased(hello, releaseNamespace, "hello", 2)
		// What is made here is deleted when the scenario ends, and is not to be made again.
		there.remove(there.helmOp(stateHelmOp))
		there.eventuallyGone(there.helmOp(stateHelmOp))
	})
}

// beside is this management cluster in a part of another one's scenario.
func (s *bootstrapScenario) beside(part *bootstrapScenario) *bootstrapScenario {
	now := *s
	now.scenario = s.in(part.T)
	return &now
}

// clusterObjects are what a Cluster consists of, as somebody writes it.
func (s *bootstrapScenario) clusterObjects(name string) []client.Object {
	return s.env.Management.ClusterObjects(testbed.ClusterOptions{Namespace: s.namespace, Name: name,
		PodCIDRs: []string{"10.1.0.0/16"}})
}

// pushObjects pushes the desired state of the cluster.
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

// takesOver runs the command where clusterctl has installed HelmOp, and has clusterctl forget that.
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

// exported applies what --export prints, and finds out that the command changes nothing of it.
func (s *bootstrapScenario) exported() {
	_, err := s.env.Management.InstallCore(s.Context())
	s.must(err)
	text := s.applyExport("--suspend")
	s.eventuallyImage(firstImage)
	s.eventually(s.helmOp(providerHelmOp), ready(1))
	s.eventually(s.helmOp(stateHelmOp), condition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason))
	before := s.applied(text)
	s.bootstrap("--image", firstImage, "--suspend")
	for object, content := range s.applied(text) {
		s.Expect(content).To(gomega.Equal(before[object]), "the command makes the same of %s", object)
	}
	_, started := s.kubelet.PIDs("")
	s.Expect(started).To(gomega.Equal(1), "and restarts nothing")
	s.expectNoCluster()
}

// applyExport applies what --export prints by kubectl, and returns it.
func (s *bootstrapScenario) applyExport(args ...string) string {
	s.Helper()
	code, text, said := s.run("writer.json",
		slices.Concat(s.bootstrapArgs(), []string{"--image", firstImage, "--export"}, args)...)
	s.Expect(code).To(gomega.Equal(0), said)
	s.file("export.yaml", []byte(text))
	s.Eventually(func(ctx context.Context) error {
		// The first run ends with an error, for kinds that are defined in it are not served yet.
		_, err := s.env.Management.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", s.path("export.yaml"))
		return err
	}).WithContext(s.Context()).Should(gomega.Succeed())
	return text
}

// applied are the objects of a text as they are in the cluster, without what each write and HelmOp itself changes.
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
		// The command asks for the tags to be looked at now.
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

// expectNoCluster fails if there is a Cluster in the scenario's namespace, or comes to be.
func (s *bootstrapScenario) expectNoCluster() {
	s.Helper()
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		list := &clusterv1.ClusterList{}
		g.Expect(s.client.List(ctx, list, client.InNamespace(s.namespace))).To(gomega.Succeed())
		g.Expect(list.Items).To(gomega.BeEmpty())
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// movesTo moves the namespace to another management cluster, and forgets to suspend the desired state before.
func (s *bootstrapScenario) movesTo(there *bootstrapScenario, one *workload) {
	for _, name := range []string{environment.CredentialsSecret, environment.CASecret} {
		update(s.scenario, s.secret(name), func(o *corev1.Secret) { o.Labels = map[string]string{moveLabel: ""} })
	}
	before, err := one.contents(s.Context())
	s.must(err)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	out, err := s.env.Management.Clusterctl(ctx, "move", "--namespace", s.namespace, "--to-kubeconfig",
		there.env.Management.KubeconfigFile())
	s.must(err)
	s.Log(out.Stderr)
	hello := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "hello"}}
	there.eventually(hello, ready(1))
	s.eventuallyGone(hello)
	system := s.inNamespace(environment.Namespace)
	// It names what was gone when it looked first: the Cluster, or an object that belongs to it.
	s.Expect(system.eventuallyTold("HelmOp", stateHelmOp, corev1.EventTypeWarning, addonsv1.ObjectsMovedEvent)).To(
		gomega.MatchRegexp("clusterctl move took .*(Cluster|LocalCluster|LocalControlPlane) " + s.namespace +
			"/one.* to another management cluster"))
	system.child(s.helmOp(stateHelmOp), "management-cluster",
		childCondition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(conditions.GetMessage(child, addonsv1.PausedCondition)).To(gomega.ContainSubstring("clusterctl move took"))
		})
	s.expectNoCluster()
	// Not even if the manager begins anew, with all that it knew forgotten, and there is a new state.
	more := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "more"}}
	s.pushObjects(append(s.clusterObjects("one"), s.newHelmOp("hello", forAll), more)...)
	s.kubectl("-n", environment.Namespace, "delete", "pods", "--all")
	s.eventuallyImage(firstImage)
	s.expectNoCluster()
	after, err := one.contents(s.Context())
	s.must(err)
	s.Expect(after).To(gomega.Equal(before))
}

// removesItself removes HelmOp as docs/bootstrap.md has it.
func (s *bootstrapScenario) removesItself() {
	s.kubectl("-n", environment.Namespace, "delete", "helmop", stateHelmOp, providerHelmOp, "--wait=false")
	// That of the provider is not paused and goes meanwhile, which kubectl would take for an error.
	s.kubectl("-n", environment.Namespace, "annotate", "helmopreleases", "-l", addonsv1.HelmOpNameLabel+"="+stateHelmOp,
		"cluster.x-k8s.io/paused-")
	s.kubectl("-n", environment.Namespace, "wait", "--for=delete", "helmop/"+stateHelmOp, "helmop/"+providerHelmOp)
	s.kubectl("delete", "helmops", "--all", "--all-namespaces")
	code, text, said := s.run("writer.json", append(s.bootstrapArgs(), "--export")...)
	s.Expect(code).To(gomega.Equal(0), said)
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
