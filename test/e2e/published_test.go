// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// releaseEnv is the environment variable that permits the test to build releases, which takes minutes.
const releaseEnv = "HELMOP_RELEASE"

// TestPublishedRelease follows a user from `make release` to `clusterctl delete`, with an empty home folder and the
// commands in the documentation. It builds the releases of two versions and verifies the later one. It installs,
// upgrades and removes HelmOp in a management cluster with releases, first with clusterctl and then with Cluster API
// Operator. The manager's Pods are processes that run the program in the image of the release.
func TestPublishedRelease(t *testing.T) {
	if os.Getenv(releaseEnv) == "" {
		t.Skipf("to make releases takes minutes, and %s is not set; see `make test-release`", releaseEnv)
	}
	begin(t)
	s := newScenarioIn(t, ownEnvironment(t, environment.Options{NoInstall: true, NoManager: true,
		Controllers: podControllers}))
	p := &published{
		whole: t, registry: s.startRegistry(registry.Options{Auth: registry.AuthNone, PlainHTTP: true}),
		work: t.TempDir(), helmOp: s.newHelmOp("steady", forAll),
	}
	p.image = p.registry.Host() + "/helmop/manager"
	p.checkout = filepath.Join(p.work, "checkout")
	s.step("the programs of a user", p.prepare)
	s.step("make release builds two versions", p.release)
	s.step("the command line is a program for each platform", p.programs)
	s.step("cosign verifies the later version", p.verify)
	s.step("the lists of modules are SPDX documents", p.lists)
	s.step("clusterctl init installs the earlier version", p.install)
	s.step("clusterctl upgrade apply touches no release", p.upgrade)
	s.step("clusterctl delete keeps the kinds, HelmOps and releases", p.remove)
	s.step("clusterctl delete --include-crd touches no release and leaves nothing behind", p.removeAll)
	s.step("Cluster API Operator", p.operate)
}

// published are two versions of HelmOp in the folder out of a checkout and in a registry, and an installation of them.
type published struct {
	whole    *testing.T // the test with all its steps
	registry *registry.Registry
	image    string // its name, without tag
	work     string // a folder for the test's files
	checkout string // a clone of the repository, at the later version

	helmOp    *addonsv1.HelmOp
	workloads []*workload
	initial   map[string]bool // the objects in the management cluster before the installation
}

// untouchable is the state of the releases in all Clusters that no upgrade may change.
type untouchable struct {
	charted []charted
	// records are the resource versions of Helm's records, by Cluster and name.
	records map[string]string
}

func (p *published) releases(s *scenario) untouchable {
	s.Helper()
	state := untouchable{charted: s.charted(p.workloads), records: map[string]string{}}
	for _, w := range p.workloads {
		secrets := &metav1.PartialObjectMetadataList{}
		secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		s.must(w.List(s.Context(), secrets, client.MatchingLabels{"owner": "helm"}))
		for i := range secrets.Items {
			record := &secrets.Items[i]
			state.records[w.name+" "+record.Namespace+"/"+record.Name] = record.ResourceVersion
		}
	}
	return state
}

// untouched checks that the releases do not change.
func (p *published) untouched(s *scenario, before untouchable) {
	s.Helper()
	s.Expect(before.records).NotTo(gomega.BeEmpty())
	s.Consistently(func() untouchable { return p.releases(s) }).Should(gomega.Equal(before))
}

// install follows the README, and creates a HelmOp.
func (p *published) install(s *scenario) {
	_, err := s.env.Management.InstallCore(s.Context())
	s.must(err)
	p.workloads = s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}})
	p.initial = p.objects(s)
	p.runPublished(s)
	p.shell(s, p.documented(s, "README.md", "## Install", "out/clusterctl.yaml <<EOF"))
	p.addCore(s)
	p.shell(s, p.documented(s, "README.md", "## Install", "clusterctl init"))
	s.Expect(s.installedVersion()).To(gomega.Equal(earlierVersion))
	s.create(p.helmOp)
	s.eventually(p.helmOp, ready(2))
}

// addCore adds the installed Cluster API to the configuration: otherwise clusterctl would read its versions from
// GitHub.
func (p *published) addCore(s *scenario) {
	s.Helper()
	own, err := os.ReadFile(filepath.Join(filepath.Dir(s.env.Management.KubeconfigFile()), "clusterctl.yaml"))
	s.must(err)
	_, core, found := strings.Cut(string(own), "providers:\n")
	s.Expect(found).To(gomega.BeTrue(), "the configuration of the test bed: %s", own)
	file := filepath.Join(p.checkout, "out", "clusterctl.yaml")
	config, err := os.ReadFile(file)
	s.must(err)
	s.must(os.WriteFile(file, append(config, core...), 0o600))
}

// upgrade follows docs/upgrade.md.
func (p *published) upgrade(s *scenario) {
	before := p.releases(s)
	file := filepath.Join(p.checkout, "out", "clusterctl.yaml")
	config, err := os.ReadFile(file)
	s.must(err)
	s.must(os.WriteFile(file, []byte(strings.ReplaceAll(string(config), "addon-helmop/"+earlierVersion,
		"addon-helmop/"+laterVersion)), 0o600))
	out := p.shell(s, p.documented(s, "docs/upgrade.md", "## Upgrade with clusterctl", "clusterctl upgrade apply"))
	s.Expect(out).To(gomega.MatchRegexp(`addon-helmop\s+` + environment.Namespace + `\s+AddonProvider\s+` +
		earlierVersion + `\s+` + laterVersion))
	s.Expect(s.installedVersion()).To(gomega.Equal(laterVersion))
	p.shell(s, "kubectl -n helmop-system rollout status deployment/helmop-controller-manager --timeout=4m")
	s.eventually(p.helmOp, ready(2))
	p.untouched(s, before)
	p.works(s, "after the upgrade")
}

// works checks that the installed manager applies a change to all Clusters.
func (p *published) works(s *scenario, text string) {
	s.Helper()
	s.setGreeting(p.helmOp, text)
	for _, w := range p.workloads {
		w.in(s).eventuallyHello(releaseNamespace, p.helmOp.Name, map[string]string{"greeting": text})
	}
	s.eventually(p.helmOp, ready(2))
}

// remove deletes the provider without its kinds, and installs it again.
func (p *published) remove(s *scenario) {
	before, uids := p.releases(s), s.uids()
	p.shell(s, "clusterctl delete --addon helmop")
	s.Expect(s.installedVersion()).To(gomega.BeEmpty())
	s.Expect(s.uids()).To(gomega.Equal(uids))
	p.untouched(s, before)
	p.shell(s, p.documented(s, "README.md", "## Install", "clusterctl init"))
	s.eventually(p.helmOp, ready(2))
	p.untouched(s, before)
	p.works(s, "after the return")
}

// removeAll follows docs/upgrade.md: it deletes the HelmOps and keeps their releases, then deletes HelmOp.
func (p *published) removeAll(s *scenario) {
	before := s.charted(p.workloads)
	const page, heading = "docs/upgrade.md", "## Uninstall"
	p.shell(s, p.documented(s, page, heading, "deletionPolicy"))
	p.shell(s, p.documented(s, page, heading, "--include-crd"))
	s.Eventually(func(g gomega.Gomega) {
		left := p.objects(s)
		maps.DeleteFunc(left, func(key string, _ bool) bool { return p.initial[key] })
		g.Expect(slices.Sorted(maps.Keys(left))).To(gomega.BeEmpty(), "what is left in the management cluster")
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.Consistently(func() []charted { return s.charted(p.workloads) }).Should(gomega.Equal(before))
}

// objects returns the keys of all objects in the management cluster.
func (p *published) objects(s *scenario) map[string]bool {
	s.Helper()
	objects, err := s.env.Management.Server.Objects(s.Context())
	s.must(err)
	keys := map[string]bool{}
	for key := range objects {
		keys[key] = true
	}
	return keys
}
