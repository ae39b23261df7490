// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

const (
	// earlierVersion is the version that is installed first. laterVersion is the version of this checkout.
	earlierVersion, laterVersion = environment.Version, "v0.1.1"

	// earlierCommit is the state of this repository whose build is upgraded, as long as there is no tag.
	earlierCommit = "2177e6637e"

	// earlierVariable is the environment variable with another commit or tag.
	earlierVariable = "HELMOP_UPGRADE_FROM"
)

// clusterctlLife is an installation of HelmOp by clusterctl, from its beginning to its end.
type clusterctlLife struct {
	folder, repository string // a work folder, and the folder of both versions
	earlier, later     string // the programs of both versions
	noEarlier          error  // why there is no earlier build; nil if there is one
	steady             *addonsv1.HelmOp
	revision           int // the newest Helm revision of the releases of steady
	rolling            *addonsv1.HelmOp
	workloads          []*workload
	manager            *environment.Manager
	components         []*unstructured.Unstructured // of the later version
}

// TestClusterctlUpgrade installs an earlier build of HelmOp with clusterctl, and runs each of the two builds with the
// kinds of the other build. It upgrades HelmOp in the middle of a rollout, deletes HelmOp without its kinds, and
// installs it again. Then it upgrades HelmOp to kinds with another stored version, and deletes HelmOp with its kinds.
//
// In a checkout without the earlier commit, both versions are the same build. The steps that compare two builds are
// then skipped.
func TestClusterctlUpgrade(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{NoInstall: true, NoManager: true})
	s := newScenarioIn(t, env)
	later, err := suite.binary()
	s.must(err)
	life := &clusterctlLife{
		folder: t.TempDir(), earlier: later, later: later, revision: 1,
		steady: s.newHelmOp("steady", forAll), rolling: s.newHelmOp("rolling", forAll, s.rolling(canaryFirst(manually))),
	}
	life.repository = filepath.Join(life.folder, "repository")
	s.step("init installs a version", life.install)
	s.step("the version is an earlier build", life.needsEarlier)
	s.step("this build works with the earlier kinds", life.keepKinds)
	s.step("the earlier build works with the kinds of this one", life.keepManager)
	s.step("upgrade plan offers the next version", life.plan)
	s.step("upgrade apply touches no release", life.upgrade)
	s.step("the rollout continues", life.rollOn)
	s.step("generate provider writes the components", life.generate)
	s.step("delete keeps the kinds, HelmOps and releases", life.delete)
	s.step("init continues with the same HelmOps", life.installAgain)
	s.step("upgrade apply stores all objects in the next API version", life.migrateStorage)
	s.step("delete --include-crd leaves nothing behind", life.deleteAll)
}

// install installs the earlier build, with releases and a rollout that waits for a promotion.
func (l *clusterctlLife) install(s *scenario) {
	root, err := s.earlier()
	l.noEarlier = err
	for version, from := range map[string]string{earlierVersion: root, laterVersion: s.env.Root()} {
		_, err = environment.WriteReleaseManifests(s.Context(), s.env.Binaries, from, filepath.Join("config", "default"),
			l.repository, version)
		s.must(err)
	}
	s.must(s.env.InstallFrom(s.Context(), l.repository, earlierVersion))
	s.Expect(s.installedVersion()).To(gomega.Equal(earlierVersion))
	if l.noEarlier == nil {
		l.earlier, err = testbed.BuildManager(s.Context(), root, filepath.Join(l.folder, "bin"))
		s.must(err)
	}
	s.env.UseManager(l.earlier)
	l.start(s)
	s.push(s.env.Registry, "charts/note", "1.0.0")
	s.create(l.steady)
	s.create(l.rolling)
	l.workloads = s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"},
			Labels: map[string]string{tierLabel: "canary"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}})
	s.eventually(l.steady, ready(2))
	s.eventually(l.rolling, ready(2), inPhase(1, addonsv1.RolloutPhaseComplete))
	s.setValues(l.rolling, greeting("two"))
	s.eventually(l.rolling, waiting)
}

// needsEarlier skips a step that tests nothing with two equal builds.
func (l *clusterctlLife) needsEarlier(s *scenario) {
	s.Helper()
	if l.noEarlier != nil {
		s.Skipf("nothing is upgraded, because both versions are built from this checkout: %v; run "+
			"git fetch --unshallow --tags", l.noEarlier)
	}
}

// start starts a manager. No kubelet does it.
func (l *clusterctlLife) start(s *scenario) {
	s.Helper()
	var err error
	l.manager, err = s.env.StartManager(s.Context())
	s.must(err)
}

// keepKinds runs the later manager with its own permissions and the earlier kinds, as after an upgrade that left out
// the CustomResourceDefinitions.
func (l *clusterctlLife) keepKinds(s *scenario) {
	l.needsEarlier(s)
	l.replaceManager(s, l.later, func() { l.apply(s, laterVersion, false) })
}

// keepManager runs the earlier manager with its own permissions and the later kinds, as during an upgrade or after a
// return to the earlier manager.
func (l *clusterctlLife) keepManager(s *scenario) {
	l.needsEarlier(s)
	l.replaceManager(s, l.earlier, func() {
		l.apply(s, laterVersion, true)
		l.apply(s, earlierVersion, false)
	})
}

// replaceManager runs another manager with other components, checks that it changes nothing by itself and stops
// writing, and that it applies a change.
func (l *clusterctlLife) replaceManager(s *scenario, binary string, install func()) {
	before, since := s.contents(l.workloads), time.Now()
	s.must(l.manager.Stop(s.Context()))
	install()
	s.env.UseManager(binary)
	l.start(s)
	s.eventually(l.steady, ready(2))
	s.eventually(l.rolling, waiting)
	l.untouched(s, before, since)
	s.settle()
	l.change(s)
	s.settle()
}

// apply applies the kinds of a version, or all its other objects.
func (l *clusterctlLife) apply(s *scenario, version string, kinds bool) {
	s.Helper()
	for _, obj := range s.decode([]byte(s.clusterctl("generate", "provider", "--addon", "helmop:"+version))) {
		if kinds == (obj.GetKind() == "CustomResourceDefinition") {
			s.must(s.client.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("e2e"),
				client.ForceOwnership))
		}
	}
}

// change changes the values of steady, and waits for the upgrades.
func (l *clusterctlLife) change(s *scenario) {
	s.Helper()
	l.revision++
	s.setGreeting(l.steady, fmt.Sprintf("revision %d", l.revision))
	for _, w := range l.workloads {
		w.in(s).eventuallyReleased(l.steady, releaseNamespace, "steady", l.revision)
	}
}

// plan checks that clusterctl offers the upgrade.
func (l *clusterctlLife) plan(s *scenario) {
	out := s.clusterctl("upgrade", "plan")
	s.Expect(out).To(gomega.MatchRegexp(`addon-helmop\s+` + environment.Namespace + `\s+AddonProvider\s+` +
		earlierVersion + `\s+` + laterVersion))
}

// upgrade upgrades to the version of this checkout.
func (l *clusterctlLife) upgrade(s *scenario) {
	before, uids := s.contents(l.workloads), s.uids()
	s.Expect(uids).To(gomega.HaveLen(2 + 2*len(l.workloads)))
	s.must(l.manager.Stop(s.Context()))
	since := time.Now()
	s.clusterctl("upgrade", "apply", "--addon", "helmop:"+laterVersion)
	s.Expect(s.installedVersion()).To(gomega.Equal(laterVersion))
	s.env.UseManager(l.later)
	l.start(s)
	s.eventually(l.steady, ready(2))
	s.eventually(l.rolling, waiting)
	l.untouched(s, before, since)
	s.Expect(s.uids()).To(gomega.Equal(uids))
}

// untouched checks that no release changed since a time.
func (l *clusterctlLife) untouched(s *scenario, before map[string]map[string]string, since time.Time) {
	s.Helper()
	s.Consistently(func(g gomega.Gomega) {
		g.Expect(s.contents(l.workloads)).To(gomega.Equal(before), "Helm's storage")
	}).Should(gomega.Succeed())
	for _, w := range l.workloads {
		writes, err := w.server.Requests(apiserver.Since(since), ofHelmOp, apiserver.Writes())
		s.must(err)
		s.Expect(writes).To(gomega.BeEmpty(), "writes to %s", w.name)
	}
}

// rollOn promotes the canary.
func (l *clusterctlLife) rollOn(s *scenario) {
	two := l.workloads[1].in(s)
	two.eventuallyRevisions("rolling", "rolling", "1 deployed")
	update(s, l.rolling, func(h *addonsv1.HelmOp) {
		h.Annotations = map[string]string{addonsv1.RolloutPromoteAnnotation: "2/canary"}
	})
	s.eventually(l.rolling, ready(2), inPhase(2, addonsv1.RolloutPhaseComplete))
	two.eventuallyRevisions("rolling", "rolling", "1 superseded", "2 deployed")
	l.workloads[0].in(s).eventuallyRevisions("rolling", "rolling", "1 superseded", "2 deployed")
}

// generate compares the components that clusterctl writes with the installed objects.
func (l *clusterctlLife) generate(s *scenario) {
	l.components = s.decode([]byte(s.clusterctl("generate", "provider", "--addon", "helmop:"+laterVersion)))
	s.Expect(len(l.components)).To(gomega.BeNumerically(">", 5))
	for _, obj := range l.components {
		s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj))
		s.Expect(obj.GetLabels()).To(gomega.HaveKeyWithValue(clusterv1.ProviderNameLabel, provider), "%s %s", obj.GetKind(),
			obj.GetName())
	}
}

// delete deletes the provider without its kinds.
func (l *clusterctlLife) delete(s *scenario) {
	before, uids, since := s.contents(l.workloads), s.uids(), time.Now()
	s.must(l.manager.Stop(s.Context()))
	s.clusterctl("delete", "--addon", "helmop")
	deployment := &appsv1.Deployment{}
	err := s.client.Get(s.Context(), client.ObjectKey{Namespace: environment.Namespace, Name: environment.Deployment},
		deployment)
	s.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "the Deployment: %v", err)
	s.Expect(s.installedVersion()).To(gomega.BeEmpty())
	s.Expect(s.uids()).To(gomega.Equal(uids))
	l.untouched(s, before, since)
}

// installAgain installs the provider while its HelmOps exist.
func (l *clusterctlLife) installAgain(s *scenario) {
	before, since := s.contents(l.workloads), time.Now()
	s.clusterctl("init", "--addon", "helmop:"+laterVersion)
	l.start(s)
	s.eventually(l.steady, ready(2))
	s.eventually(l.rolling, ready(2), inPhase(2, addonsv1.RolloutPhaseComplete))
	l.untouched(s, before, since)
	l.change(s)
}

// deleteAll removes the HelmOps, then the provider with its kinds.
func (l *clusterctlLife) deleteAll(s *scenario) {
	for _, helmOp := range []*addonsv1.HelmOp{l.steady, l.rolling} {
		s.remove(helmOp)
		s.eventuallyGone(helmOp)
	}
	// clusterctl refuses to delete kinds with objects. The garbage collector deletes HelmOpRevisions in the background.
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		for _, list := range []client.ObjectList{&addonsv1.HelmOpReleaseList{}, &addonsv1.HelmOpRevisionList{}} {
			g.Expect(s.client.List(ctx, list)).To(gomega.Succeed())
			g.Expect(meta.LenList(list)).To(gomega.BeZero())
		}
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.must(l.manager.Stop(s.Context()))
	s.clusterctl("delete", "--addon", "helmop", "--include-crd", "--include-namespace")
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		for _, obj := range l.components {
			err := s.client.Get(ctx, client.ObjectKeyFromObject(obj), obj.DeepCopy())
			g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// clusterctl runs a command of clusterctl and returns its output.
func (s *scenario) clusterctl(args ...string) string {
	s.Helper()
	// clusterctl retries failures for minutes.
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	out, err := s.env.Management.Clusterctl(ctx, args...)
	s.must(err)
	return out.Stdout
}

// installedVersion returns the version of HelmOp in clusterctl's inventory; empty if HelmOp is not in it.
func (s *scenario) installedVersion() string {
	s.Helper()
	inventory := &unstructured.Unstructured{}
	inventory.SetAPIVersion("clusterctl.cluster.x-k8s.io/v1alpha3")
	inventory.SetKind("Provider")
	err := s.client.Get(s.Context(), client.ObjectKey{Namespace: environment.Namespace, Name: provider}, inventory)
	s.must(client.IgnoreNotFound(err))
	version, _, err := unstructured.NestedString(inventory.Object, "version")
	s.must(err)
	return version
}

// uids returns the UIDs of all HelmOps and HelmOpReleases of the scenario, by kind and name.
func (s *scenario) uids() map[string]string {
	s.Helper()
	uids := map[string]string{}
	helmOps, releases := &addonsv1.HelmOpList{}, &addonsv1.HelmOpReleaseList{}
	s.must(s.client.List(s.Context(), helmOps, client.InNamespace(s.namespace)))
	s.must(s.client.List(s.Context(), releases, client.InNamespace(s.namespace)))
	for i := range helmOps.Items {
		uids["HelmOp "+helmOps.Items[i].Name] = string(helmOps.Items[i].UID)
	}
	for i := range releases.Items {
		uids["HelmOpRelease "+releases.Items[i].Name] = string(releases.Items[i].UID)
	}
	return uids
}

// earlier returns a folder with the earlier state of this repository, see commitBefore. In a checkout without the
// commit, for example a shallow one, it returns this checkout and the error.
func (s *scenario) earlier() (string, error) {
	s.Helper()
	commit, err := s.commitBefore(earlierCommit)
	if err != nil && os.Getenv(earlierVariable) == "" {
		return s.env.Root(), err
	}
	s.must(err)
	folder := s.TempDir()
	archive := filepath.Join(folder, "tree.tar")
	_, err = s.git("archive", "--output", archive, commit)
	s.must(err)
	s.must(exec.CommandContext(s.Context(), "tar", "-x", "-f", archive, "-C", folder).Run())
	return folder, nil
}

// commitBefore returns the earlier state of this repository: the commit of HELMOP_UPGRADE_FROM, or the newest tag, or
// untagged. It returns an error if the checkout does not have the commit.
func (s *scenario) commitBefore(untagged string) (string, error) {
	s.Helper()
	commit := os.Getenv(earlierVariable)
	if commit == "" {
		commit = untagged
		if tag, err := s.git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"); err == nil {
			commit = tag
		}
	}
	if _, err := s.git("cat-file", "-e", commit+"^{commit}"); err != nil {
		return "", fmt.Errorf("this checkout does not have the commit %s: %w", commit, err)
	}
	return commit, nil
}

// git runs a command of Git in this checkout, and returns its output.
func (s *scenario) git(args ...string) (string, error) {
	cmd := exec.CommandContext(s.Context(), "git", args...)
	cmd.Dir = s.env.Root()
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
