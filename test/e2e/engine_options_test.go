// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// TestEngineOptions checks the options of the engine, in a cluster in which no controller runs.
func TestEngineOptions(t *testing.T) {
	s := newScenario(t)
	s.pushChart("charts/app", environment.ChartMetadata{Chart: "app", Version: "1.0.0"})
	w := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	s.parts(w, map[string]func(engine){
		"post-render": engine.postRendered,
		"tenant":      engine.impersonated,
		"no-rights":   engine.impersonatedWithoutRights,
		"crds-change": engine.replacesCRDs,
		"too-large":   engine.tooLarge,
	})
}

// optionsHelmOp returns a HelmOp without health checks.
func (e engine) optionsHelmOp(values map[string]any, change ...func(*addonsv1.HelmOp)) *addonsv1.HelmOp {
	helmOp := e.helmOp(values, change...)
	helmOp.Spec.Health = withoutHealth()
	return helmOp
}

// postRendered changes the rendered objects for each Cluster, and reverts the change.
func (e engine) postRendered() {
	s := e.scenario
	helmOp := e.optionsHelmOp(nil, func(h *addonsv1.HelmOp) {
		h.Spec.PostRender = &addonsv1.PostRender{
			Patches: []addonsv1.Patch{{
				Patch:  "- {op: add, path: /metadata/annotations, value: {cluster: '{{ .Cluster.metadata.name }}'}}",
				Target: &addonsv1.ObjectSelector{Kind: "Deployment|DaemonSet"},
			}},
			Images:         []addonsv1.ImageOverride{{Name: "registry.invalid/app", NewName: "mirror.invalid/app", NewTag: "2"}},
			CommonMetadata: &addonsv1.ObjectMetadata{Labels: map[string]string{"team": "{{ .Cluster.metadata.name }}-team"}},
		}
	})
	s.create(helmOp)
	e.released(helmOp, 1)
	expect := func(image, team, cluster string) {
		s.Helper()
		d, config := &appsv1.Deployment{}, e.configMap()
		s.must(e.Get(s.Context(), client.ObjectKey{Namespace: e.name, Name: e.name}, d))
		s.must(e.Get(s.Context(), client.ObjectKeyFromObject(config), config))
		s.Expect(d.Spec.Template.Spec.Containers[0].Image).To(gomega.Equal(image))
		s.Expect(d.Annotations["cluster"]).To(gomega.Equal(cluster))
		s.Expect([]string{d.Labels["team"], config.Labels["team"]}).To(gomega.Equal([]string{team, team}))
		s.Expect(d.Spec.Selector.MatchLabels).NotTo(gomega.HaveKey("team"))
	}
	expect("mirror.invalid/app:2", "one-team", "one")
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.PostRender.Images[0].NewTag = "3" })
	e.released(helmOp, 2)
	expect("mirror.invalid/app:3", "one-team", "one")
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.PostRender.Patches[0].Patch = "- {op: remove, path: /nowhere}" })
	e.becomes(helmOp, addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.PostRenderFailedReason)
	e.history("1 superseded", "2 deployed")
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.PostRender = nil })
	e.released(helmOp, 3)
	expect("registry.invalid/app:1", "", "")
}

// createAccount creates a ServiceAccount in its own namespace in the workload cluster, with or without rights there.
func (e engine) createAccount(rights bool) {
	s := e.scenario
	s.Helper()
	meta := metav1.ObjectMeta{Namespace: e.name, Name: "deployer"}
	s.must(e.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.name}}))
	s.must(e.Create(s.Context(), &corev1.ServiceAccount{ObjectMeta: meta}))
	if !rights {
		return
	}
	s.must(e.Create(s.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps", "batch"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}}))
	s.must(e.Create(s.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.name, Name: meta.Name}},
	}))
}

func asDeployer(h *addonsv1.HelmOp) { h.Spec.ImpersonateServiceAccountName = "deployer" }

// impersonated installs as a tenant with rights in its own namespace only.
func (e engine) impersonated() {
	s := e.scenario
	e.createAccount(true)
	helmOp := e.optionsHelmOp(nil, asDeployer)
	s.create(helmOp)
	e.released(helmOp, 1)
	e.set(helmOp, map[string]any{"greeting": "changed"})
	e.released(helmOp, 2)
	e.expectGreetings("changed")
	// HelmOp must not do anything for the tenant for which the tenant lacks the permission.
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.PostRender = &addonsv1.PostRender{Patches: []addonsv1.Patch{{
			Patch:  "- {op: replace, path: /metadata/namespace, value: kube-system}",
			Target: &addonsv1.ObjectSelector{Kind: "ConfigMap"},
		}}}
	})
	e.becomes(helmOp, addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.ClusterForbiddenReason)
	data, err := e.hello(s.Context(), "kube-system", e.name)
	s.must(err)
	s.Expect(data).To(gomega.BeNil())
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.PostRender = nil })
	s.eventually(helmOp, ready(1))
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	e.history()
}

// impersonatedWithoutRights installs as a tenant without rights. The message names the account and the missing right,
// and nothing is installed.
func (e engine) impersonatedWithoutRights() {
	s := e.scenario
	e.createAccount(false)
	helmOp := e.optionsHelmOp(nil, asDeployer)
	s.create(helmOp)
	user := "system:serviceaccount:" + e.name + ":deployer"
	e.becomes(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ClusterForbiddenReason,
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(toJSON(child.Status.Conditions)).To(gomega.ContainSubstring(user))
		})
	data, err := e.hello(s.Context(), e.name, e.name)
	s.must(err)
	s.Expect(data).To(gomega.BeNil())
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.ImpersonateServiceAccountName = "" })
	e.released(helmOp, 1)
}

// replacesCRDs upgrades the CRDs in a chart's folder crds, which an uninstallation keeps. The description of the CRD
// differs by version.
func (e engine) replacesCRDs() {
	s := e.scenario
	group := e.name + ".test"
	push := func(version, description string) {
		_, err := s.env.Registry.PushChart(s.Context(), "charts/"+e.name, version, registry.ChartFiles(map[string]string{
			"Chart.yaml": "apiVersion: v2\nname: crds\nversion: " + version + "\n",
			"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: " +
				"{version: {{ .Chart.Version }}}\n",
			"crds/gadget.yaml": gadgetCRD(group, description),
		}))
		s.must(err)
	}
	push("1.0.0", "first")
	push("1.1.0", "second")
	helmOp := e.optionsHelmOp(nil, func(h *addonsv1.HelmOp) {
		h.Spec.Source = s.env.Source("charts/"+e.name, addonsv1.ArtifactReference{Tag: "1.0.0"})
		h.Spec.Install = &addonsv1.InstallOptions{CRDs: addonsv1.CRDPolicyCreateReplace}
		h.Spec.Upgrade = &addonsv1.UpgradeOptions{CRDs: addonsv1.CRDPolicyCreateReplace}
	})
	expect := func(want string) {
		s.Helper()
		crd := &apiextensionsv1.CustomResourceDefinition{}
		s.must(e.Get(s.Context(), client.ObjectKey{Name: "gadgets." + group}, crd))
		s.Expect(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description).To(gomega.Equal(want))
	}
	s.create(helmOp)
	e.released(helmOp, 1)
	expect("first")
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "1.1.0" })
	e.released(helmOp, 2)
	expect("second")
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	expect("second")
}

func gadgetCRD(group, description string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gadgets.%[1]s
spec:
  group: %[1]s
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, description: %[2]s}}
`, group, description)
}

// tooLarge installs a chart that is too large for a record. Nothing is installed, and the reason reports this.
func (e engine) tooLarge() {
	s := e.scenario
	files := map[string]string{
		"Chart.yaml":            "apiVersion: v2\nname: large\nversion: 1.0.0\n",
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n",
		"crds/gadget.yaml":      gadgetCRD(e.name+".test", "large"),
	}
	addNoise(files, 4)
	_, err := s.env.Registry.PushChart(s.Context(), "charts/too-large", "1.0.0", registry.ChartFiles(files))
	s.must(err)
	helmOp := e.optionsHelmOp(nil, func(h *addonsv1.HelmOp) {
		h.Spec.Source = s.env.Source("charts/too-large", addonsv1.ArtifactReference{Tag: "1.0.0"})
	})
	s.create(helmOp)
	e.becomes(helmOp, addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.ReleaseTooLargeReason)
	for _, obj := range []client.Object{&corev1.Namespace{}, &apiextensionsv1.CustomResourceDefinition{}} {
		name := e.name
		if _, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
			name = "gadgets." + e.name + ".test"
		}
		err := e.Get(s.Context(), client.ObjectKey{Name: name}, obj)
		s.Expect(client.IgnoreNotFound(err)).To(gomega.Succeed())
		s.Expect(err).To(gomega.HaveOccurred(), "%s exists", name)
	}
	s.must(e.expectFailures(helmOp, 0))
}

// expectFailures returns an error unless this number of failures was counted.
func (e engine) expectFailures(helmOp *addonsv1.HelmOp, want int32) error {
	if got := e.scenario.child(helmOp, e.workload.name).Status.Failures; got != want {
		return fmt.Errorf("%d failures, want %d", got, want)
	}
	return nil
}

// TestKubeconfigRefused checks that HelmOp does not use a kubeconfig that runs a program or names files, and continues
// when the kubeconfig is corrected.
func TestKubeconfigRefused(t *testing.T) {
	s := newScenario(t)
	s.createCluster(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}, HoldBack: true})
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "one-kubeconfig"}}
	var good []byte
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.client.Get(ctx, client.ObjectKeyFromObject(kubeconfig), kubeconfig)).To(gomega.Succeed())
		good = kubeconfig.Data["value"]
		g.Expect(good).NotTo(gomega.BeEmpty())
	}).WithContext(s.Context()).Should(gomega.Succeed())
	config, err := clientcmd.Load(good)
	s.must(err)
	for _, user := range config.AuthInfos {
		user.Exec = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "/bin/false",
			InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
	}
	bad, err := clientcmd.Write(*config)
	s.must(err)
	set := func(data []byte) {
		update(s, kubeconfig, func(secret *corev1.Secret) { secret.Data["value"] = data })
	}
	set(bad)
	s.must(s.env.Management.Release(s.Context(), s.key("one")))
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	s.child(helmOp, "one", childCondition(addonsv1.ClusterReachableCondition, metav1.ConditionFalse,
		addonsv1.KubeconfigRefusedReason),
		childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.KubeconfigRefusedReason),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(toJSON(child.Status.Conditions)).To(gomega.ContainSubstring("exec"))
			g.Expect(strings.Contains(toJSON(child.Status), "/bin/false")).To(gomega.BeFalse())
		})
	set(good)
	s.running("one").eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
}
