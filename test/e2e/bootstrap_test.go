// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// Images of the manager. No program can be started for brokenImage.
const (
	firstImage  = "registry.example/manager:1"
	secondImage = "registry.example/manager:2"
	brokenImage = "registry.example/manager:broken"
)

const (
	bootstrapReader   = "fleet-reader"
	providerHelmOp    = "helmop"
	stateHelmOp       = "cluster-state"
	stateRepository   = "fleet"
	stateNamespace    = "team-a"
	providerTimeout   = 12 * time.Second
	extraKey          = "example.com/extra"
	bootstrapInterval = "1s"
)

// bootstrapScenario is a management cluster with Cluster API and without HelmOp. It runs Pods, and has a registry with
// user rights.
type bootstrapScenario struct {
	*scenario
	registry *registry.Registry
	kubelet  *environment.Kubelet
	home     string
	*bootstrapTrust
}

// bootstrapTrust is the state that changes from step to step.
type bootstrapTrust struct {
	// readers is the password of the user who may only pull.
	readers string
	// signs are the arguments with which pushed artifacts are signed. They are empty before signatures are required.
	signs []string
}

// bootstrapResult is the output of the command.
type bootstrapResult struct {
	Provider, ClusterState struct {
		Reference string
		Tags      []string
		Pushed    bool
		Signature string
	}
	Credential string
	Objects    []struct{ Kind, Name, Outcome string }
}

func newBootstrapScenario(t *testing.T) *bootstrapScenario {
	t.Helper()
	begin(t)
	env := ownEnvironment(t, environment.Options{NoInstall: true, NoManager: true, NoCharts: true,
		Controllers: podControllers})
	s := newBootstrapScenarioIn(t, env)
	program, err := suite.binary()
	s.must(err)
	images, err := brokenPrograms(s.home)
	s.must(err)
	images[firstImage], images[secondImage] = program, program
	s.runPods(images)
	return s
}

// podControllers create the Pods of Deployments.
var podControllers = []string{"deployment-controller", "replicaset-controller"}

// newBootstrapScenarioIn returns a scenario in an environment, with its own registry. It does not run Pods.
func newBootstrapScenarioIn(t *testing.T, env *environment.Environment) *bootstrapScenario {
	t.Helper()
	s := &bootstrapScenario{scenario: newScenarioIn(t, env), home: t.TempDir(), bootstrapTrust: &bootstrapTrust{}}
	s.registry = s.startRegistry(registry.Options{Auth: registry.AuthToken})
	var err error
	s.readers, err = s.registry.AddReader(bootstrapReader)
	s.must(err)
	s.file("ca.crt", s.registry.CA())
	config, err := s.registry.DockerConfigJSON()
	s.must(err)
	s.file("writer.json", config)
	config, err = registry.DockerConfig(s.registry.Host(), bootstrapReader, s.readers)
	s.must(err)
	s.file("reader.json", config)
	return s
}

// runPods runs Pods with the given images, by the program given for each image.
func (s *bootstrapScenario) runPods(images map[string]string) {
	s.kubelet = startKubelet(s.T, s.env, environment.KubeletOptions{Images: images})
}

// startKubelet runs Pods until the end of a test.
func startKubelet(t *testing.T, env *environment.Environment, opts environment.KubeletOptions) *environment.Kubelet {
	t.Helper()
	kubelet, err := env.StartKubelet(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kubelet.Stop(); err != nil {
			t.Error(err)
		}
	})
	return kubelet
}

// step runs a step of the scenario.
func (s *bootstrapScenario) step(name string, do func(s *bootstrapScenario)) {
	s.Helper()
	s.scenario.step(name, func(part *scenario) {
		now := *s
		now.scenario = part
		do(&now)
	})
}

func (s *bootstrapScenario) path(name string) string {
	return filepath.Join(s.home, filepath.FromSlash(name))
}

func (s *bootstrapScenario) file(name string, content []byte) {
	s.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	s.must(os.WriteFile(s.path(name), content, 0o600))
}

func (s *bootstrapScenario) at(reference string) string {
	return "oci://" + s.registry.Host() + "/" + reference
}

// run runs a command of kubectl helmop with a credential, and returns its exit code and its output.
func (s *bootstrapScenario) run(credential string, args ...string) (code int, out, errOut string) {
	s.Helper()
	var stdout, stderr bytes.Buffer
	args = append(args, "--ca-file", s.path("ca.crt"), "--registry-config", s.path(credential))
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	code = cli.Run(ctx, args, cli.Streams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
	return code, stdout.String(), stderr.String()
}

// bootstrap runs the command as the user who may push, and expects it to succeed.
func (s *bootstrapScenario) bootstrap(args ...string) bootstrapResult {
	s.Helper()
	return s.bootstrapOf(slices.Concat(s.bootstrapArgs(), args)...)
}

// bootstrapOf runs the command with only these arguments, and expects it to succeed.
func (s *bootstrapScenario) bootstrapOf(args ...string) bootstrapResult {
	s.Helper()
	code, out, stderr := s.run("writer.json", slices.Concat(args, s.signs)...)
	if code != 0 {
		s.Fatalf("exit code %d: %s", code, stderr)
	}
	var result bootstrapResult
	s.must(json.Unmarshal([]byte(out), &result))
	return result
}

func (s *bootstrapScenario) bootstrapArgs() []string {
	return append(s.fewerArgs(), "--cluster-path", "clusters/production", "--interval", bootstrapInterval)
}

// fewerArgs are the arguments that every run needs. The cluster has the values of the others.
func (s *bootstrapScenario) fewerArgs() []string {
	return []string{"bootstrap", "oci", "--url", s.at("helmop:production"), "--cluster-url",
		s.at(stateRepository + ":production"),
		"--pull-username", bootstrapReader, "--pull-password", s.readers, "--kubeconfig", s.env.Management.KubeconfigFile(),
		"-o", "json"}
}

// push pushes the desired state of the cluster, with an object for each name.
func (s *bootstrapScenario) push(names ...string) {
	s.Helper()
	s.must(os.RemoveAll(s.path("state")))
	state := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + stateNamespace + "\n"
	for _, name := range names {
		state += "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n  namespace: " + stateNamespace +
			"\ndata:\n  of: state\n"
	}
	s.file("state/clusters/production/state.yaml", []byte(state))
	s.file("state/clusters/other/state.yaml",
		[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n  namespace: default\n"))
	s.pushState(s.signs...)
}

// pushState pushes the files in the folder of the desired state.
func (s *bootstrapScenario) pushState(args ...string) {
	s.Helper()
	if code, _, stderr := s.run("writer.json",
		append([]string{"push", s.path("state"), s.at(stateRepository + ":production")}, args...)...); code != 0 {
		s.Fatalf("exit code %d: %s", code, stderr)
	}
}

// pushProvider pushes another version of HelmOp without access to the cluster, and returns its digest.
func (s *bootstrapScenario) pushProvider(args ...string) string {
	s.Helper()
	code, out, stderr := s.run("writer.json",
		slices.Concat([]string{"bootstrap", "oci", "--url", s.at("helmop:production"), "--push-only"}, s.signs, args)...)
	if code != 0 {
		s.Fatalf("exit code %d: %s", code, stderr)
	}
	_, digest, _ := strings.Cut(strings.TrimSpace(out), "@")
	return digest
}

func (s *bootstrapScenario) helmOp(name string) *addonsv1.HelmOp {
	return &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: environment.Namespace, Name: name}}
}

func (s *bootstrapScenario) deployment(ctx context.Context, g gomega.Gomega) *appsv1.Deployment {
	deployment := &appsv1.Deployment{}
	g.Expect(s.client.Get(ctx, client.ObjectKey{Namespace: environment.Namespace, Name: environment.Deployment},
		deployment)).To(gomega.Succeed())
	return deployment
}

// eventuallyImage waits until the Deployment has an image and all its Pods run the image and are ready, as many as
// before.
func (s *bootstrapScenario) eventuallyImage(image string) {
	s.Helper()
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		deployment := s.deployment(ctx, g)
		g.Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(gomega.Equal(image))
		g.Expect(deployment.Status.ObservedGeneration).To(gomega.Equal(deployment.Generation))
		g.Expect([]int32{deployment.Status.Replicas, deployment.Status.UpdatedReplicas,
			deployment.Status.ReadyReplicas}).To(gomega.Equal([]int32{1, 1, 1}))
		pids, _ := s.kubelet.PIDs("")
		g.Expect(pids).To(gomega.HaveLen(1))
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// TestBootstrap bootstraps an empty management cluster to a fleet whose desired state is in a registry, and updates
// HelmOp by HelmOp.
func TestBootstrap(t *testing.T) {
	s := newBootstrapScenario(t)
	w := s.managementCluster()

	s.step("refuses a pull credential that can push", func(s *bootstrapScenario) {
		args := append(s.bootstrapArgs(), "--pull-username", s.registry.Username(), "--pull-password", s.registry.Password())
		code, _, stderr := s.run("writer.json", args...)
		s.Expect(code).To(gomega.Equal(2), stderr)
		s.Expect(stderr).To(gomega.ContainSubstring("can push to"))
		err := s.client.Get(s.Context(), client.ObjectKey{Name: environment.Namespace}, &corev1.Namespace{})
		s.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)
		code, _, stderr = s.run("writer.json", "list", s.at("helmop"))
		s.Expect(code).To(gomega.Equal(3), "nothing was pushed: %s", stderr)
	})
	s.step("installs HelmOp in an empty cluster", func(s *bootstrapScenario) {
		result := s.bootstrap("--image", firstImage)
		s.Expect(result.Credential).To(gomega.Equal("Secret"))
		s.Expect(result.ClusterState.Pushed).To(gomega.BeTrue(), "an empty state")
		s.Expect(result.Provider.Tags).To(gomega.HaveLen(2))
		s.eventually(s.helmOp(providerHelmOp), ready(1))
		s.eventually(s.helmOp(stateHelmOp), ready(1))
		w.in(s.scenario).eventuallyRevisions(environment.Namespace, providerHelmOp, "1 deployed")
		w.in(s.scenario).eventuallyRevisions(environment.Namespace, stateHelmOp, "1 deployed")
		s.Expect(s.deployment(s.Context(), s.Gomega).Generation).To(gomega.BeEquivalentTo(1),
			"HelmOp has taken over without a change")
		_, started := s.kubelet.PIDs("")
		s.Expect(started).To(gomega.Equal(1), "without a restart")
	})
	s.step("the credential in the cluster cannot push", func(s *bootstrapScenario) { s.cannotPush() })
	s.step("a second run changes nothing", func(s *bootstrapScenario) {
		before, err := w.storage(s.Context())
		s.must(err)
		for _, result := range []bootstrapResult{s.bootstrap("--image", firstImage),
			s.bootstrapOf(append(s.fewerArgs(), "--image", firstImage)...)} {
			s.Expect([]bool{result.Provider.Pushed, result.ClusterState.Pushed}).To(gomega.Equal([]bool{false, false}))
			for _, object := range result.Objects {
				s.Expect(object.Outcome).To(gomega.BeElementOf("unchanged", "ready"), "%s %s", object.Kind, object.Name)
			}
		}
		after, err := w.storage(s.Context())
		s.must(err)
		s.Expect(after).To(gomega.Equal(before))
	})
	s.step("requires signatures", func(s *bootstrapScenario) { s.demandsSignatures() })
	s.step("applies and prunes the desired state", func(s *bootstrapScenario) { s.keepsState() })
	s.step("corrects manual changes to the desired state", func(s *bootstrapScenario) { s.correctsState() })
	s.step("refuses a typo in the address of the desired state",
		func(s *bootstrapScenario) { s.refusesEmptyState(w.in(s.scenario)) })
	s.step("keeps the old state if the new one is invalid", func(s *bootstrapScenario) { s.keepsOldState() })
	s.step("replaces the pull credential", func(s *bootstrapScenario) { s.rotatesCredential() })
	s.step("updates itself to a newer version", func(s *bootstrapScenario) { s.updatesItself(w.in(s.scenario)) })
	for _, broken := range brokenProviders() {
		s.step(broken.step, func(s *bootstrapScenario) { s.keepsOldVersion(broken) })
	}
	s.step("a run with another image replaces the version", func(s *bootstrapScenario) {
		s.setProviderTimeout(nil)
		result := s.bootstrap("--image", firstImage)
		s.Expect(result.Provider.Pushed).To(gomega.BeTrue(), "the tag is moved")
		s.eventuallyImage(firstImage)
		s.eventually(s.helmOp(providerHelmOp), ready(1))
		err := s.client.Get(s.Context(), client.ObjectKey{Namespace: environment.Namespace, Name: "extra"},
			&corev1.ConfigMap{})
		s.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "the object is pruned: %v", err)
	})
	s.step("applies the desired state after the replacement", func(s *bootstrapScenario) { s.keepsState() })
}

// cannotPush checks that the cluster does not have the push credential, and tries to push with the credential that it
// has.
func (s *bootstrapScenario) cannotPush() {
	secrets := &corev1.SecretList{}
	s.must(s.client.List(s.Context(), secrets))
	found := false
	for _, secret := range secrets.Items {
		for key, value := range secret.Data {
			s.Expect(string(value)).NotTo(gomega.ContainSubstring(s.registry.Password()), "%s of %s", key, secret.Name)
			if key == corev1.DockerConfigJsonKey && secret.Namespace == environment.Namespace {
				s.file("cluster.json", value)
				found = true
			}
		}
	}
	s.Expect(found).To(gomega.BeTrue(), "there is a credential")
	code, _, stderr := s.run("cluster.json", "pull", s.at("helmop:production"), "--dir", s.path("pulled"))
	s.Expect(code).To(gomega.Equal(0), stderr)
	code, _, stderr = s.run("cluster.json", "push", s.path("pulled"), s.at("helmop:production"))
	s.Expect(code).To(gomega.Equal(4), stderr)
}

// keepsState pushes a state with two objects, and then with one. A Namespace belongs to the state. Files in other
// folders do not.
func (s *bootstrapScenario) keepsState() {
	has := func(ctx context.Context, g gomega.Gomega, namespace, name string) bool {
		err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.ConfigMap{})
		g.Expect(client.IgnoreNotFound(err)).NotTo(gomega.HaveOccurred())
		return err == nil
	}
	s.push("one", "two")
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect([]bool{has(ctx, g, stateNamespace, "one"), has(ctx, g, stateNamespace, "two"),
			has(ctx, g, "default", "other")}).To(gomega.Equal([]bool{true, true, false}))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.push("one")
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect([]bool{has(ctx, g, stateNamespace, "one"),
			has(ctx, g, stateNamespace, "two")}).To(gomega.Equal([]bool{true, false}))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.eventually(s.helmOp(stateHelmOp), ready(1))
}

// correctsState changes an object of the state, and then deletes it.
func (s *bootstrapScenario) correctsState() {
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: stateNamespace, Name: "one"}}
	eventuallyCorrected := func() {
		s.Helper()
		s.Eventually(func(g gomega.Gomega, ctx context.Context) {
			g.Expect(s.client.Get(ctx, client.ObjectKeyFromObject(one), one)).To(gomega.Succeed())
			g.Expect(one.Data).To(gomega.Equal(map[string]string{"of": "state"}))
		}).WithContext(s.Context()).Should(gomega.Succeed())
	}
	eventuallyCorrected()
	update(s.scenario, one, func(c *corev1.ConfigMap) { c.Data["of"] = "a user" })
	eventuallyCorrected()
	s.must(s.client.Delete(s.Context(), one))
	eventuallyCorrected()
}

// refusesEmptyState runs the command with the address of a state that does not exist. The command pushes nothing, and
// the current state stays.
func (s *bootstrapScenario) refusesEmptyState(w *workload) {
	state := s.helmOp(stateHelmOp)
	s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(state), state))
	generation := state.Generation
	tagsOf := func(repository string) string {
		s.Helper()
		code, out, stderr := s.run("writer.json", "list", s.at(repository))
		s.Expect(code).To(gomega.Equal(0), stderr)
		return out
	}
	tags := tagsOf("helmop") + tagsOf(stateRepository)
	before, err := w.storage(s.Context())
	s.must(err)
	code, _, stderr := s.run("writer.json",
		append(s.bootstrapArgs(), "--cluster-url", s.at(stateRepository+":prodution"), "--image", secondImage)...)
	s.Expect(code).To(gomega.Equal(2), stderr)
	s.Expect(stderr).To(gomega.ContainSubstring("HelmOp cluster-state follows " + s.at(stateRepository+":production")))
	s.Expect(tagsOf("helmop")+tagsOf(stateRepository)).To(gomega.Equal(tags), "nothing was pushed")
	after, err := w.storage(s.Context())
	s.must(err)
	s.Expect(after).To(gomega.Equal(before))
	s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(state), state))
	s.Expect(state.Generation).To(gomega.Equal(generation))
	s.Expect(s.hasState(s.Context(), s.Gomega, "one")).To(gomega.BeTrue())
}

// updatesItself pushes a version without access to the cluster, with a kustomization that changes the manager and a
// CustomResourceDefinition.
func (s *bootstrapScenario) updatesItself(w *workload) {
	s.file("overlay/kustomization.yaml",
		[]byte("patches:\n- target: {kind: CustomResourceDefinition}\n  patch: |\n    - {op: add, path: "+
			"/metadata/annotations/example.com~1extra, value: \"yes\"}\n"+
			"resources: [extra.yaml]\n"))
	s.file("overlay/extra.yaml",
		[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: helmop-system}\n"))
	before, _ := s.kubelet.PIDs("")
	leader := s.leader()
	s.pushProvider("--image", secondImage, "--kustomization", s.path("overlay/kustomization.yaml"))
	s.eventuallyImage(secondImage)
	w.eventuallyRevisions(environment.Namespace, providerHelmOp, "1 superseded", "2 deployed")
	s.eventually(s.helmOp(providerHelmOp), ready(1))
	after, started := s.kubelet.PIDs("")
	s.Expect(after).NotTo(gomega.Equal(before))
	s.Expect(started).To(gomega.Equal(2))
	s.Eventually(s.leader).WithContext(s.Context()).ShouldNot(gomega.Equal(leader))
	s.must(s.client.Get(s.Context(), client.ObjectKey{Namespace: environment.Namespace, Name: "extra"},
		&corev1.ConfigMap{}))
	crd := &apiextensionsv1.CustomResourceDefinition{}
	s.must(s.client.Get(s.Context(), client.ObjectKey{Name: "helmops.addons.cluster.x-k8s.io"}, crd))
	s.Expect(crd.Annotations).To(gomega.HaveKeyWithValue(extraKey, "yes"))
}
