// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// TestBill lists the artifacts of a fleet, copies them to a registry behind an air gap, and checks that releases wait
// until their images are there.
func TestBill(t *testing.T) {
	s := newScenario(t)
	s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}, Labels: map[string]string{"canary": "yes"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}},
	)
	b := s.billed()
	s.part("bill and mirror", func(s *scenario) { b.in(s).fillsAirGap() })
	s.part("preflight of images", func(s *scenario) { b.in(s).waitsForImages() })
}

// billed is a registry with the chart "app", and how the commands reach it.
type billed struct {
	*scenario
	*registry.Registry
	flags []string
}

func (s *scenario) billed() *billed {
	s.Helper()
	b := &billed{scenario: s, Registry: s.ownRegistry()}
	config, err := b.DockerConfigJSON()
	s.must(err)
	b.flags = []string{"--registry-config", b.file("config.json", config), "--ca-file", b.file("ca.crt", b.CA())}
	chart := filepath.Join(s.TempDir(), "app")
	for name, text := range map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: app\nversion: 1.0.0\n",
		"values.yaml": "image: none\n",
		"templates/app.yaml": "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: {{ .Release.Name }}}\nspec:\n" +
			"  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n" +
			"    spec: {containers: [{name: app, image: {{ .Values.image | quote }}}]}\n",
	} {
		file := filepath.Join(chart, name)
		s.must(os.MkdirAll(filepath.Dir(file), 0o700))
		s.must(os.WriteFile(file, []byte(text), 0o600))
	}
	b.mustRun("push", chart, "oci://"+b.Host()+"/charts/app")
	return b
}

// in returns the same registry for a part of the scenario.
func (b *billed) in(s *scenario) *billed {
	return &billed{scenario: s, Registry: b.Registry, flags: b.flags}
}

// file writes a file, and returns its path.
func (b *billed) file(name string, data []byte) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), name)
	b.must(os.WriteFile(path, data, 0o600))
	return path
}

// run runs a command with the access to the registry. Commands for artifacts have no flags for a management cluster.
func (b *billed) run(args ...string) (output string, code int) {
	b.Helper()
	args = append(args, b.flags...)
	if args[0] == "bill" {
		return b.helmopCommand(args...)
	}
	return b.plainCommand("", args...)
}

func (b *billed) mustRun(args ...string) string {
	b.Helper()
	output, code := b.run(args...)
	b.Expect(code).To(gomega.BeZero(), output)
	return output
}

// image pushes something under the name of an image, and returns the name.
func (b *billed) image(repository string, flags ...string) string {
	b.Helper()
	folder := b.file("object.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+repository+"}\n"))
	b.mustRun(append([]string{"push", folder, "oci://" + b.Host() + "/" + repository + ":1"}, flags...)...)
	return b.Host() + "/" + repository + ":1"
}

// fillsAirGap lists two Clusters with different images, a signed one and another one, and copies the list.
func (b *billed) fillsAirGap() {
	s := b.scenario
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	s.must(err)
	key := b.file("release.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	plain, signed := b.image("plain"), b.image("signed", "--sign", "--key", key)
	helmOp := s.noteFrom(b.Registry, "billed", "charts/app", addonsv1.ArtifactReference{Tag: "1.0.0"})
	helmOp.Spec.Values = rawJSON(map[string]any{"image": plain})
	helmOp.Spec.Overrides = []addonsv1.Override{{Name: "canary", Values: rawJSON(map[string]any{"image": signed}),
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}}}
	s.create(helmOp)
	s.eventually(helmOp, ready(2))

	s.Expect(b.mustRun("bill", "billed")).To(gomega.SatisfyAll(
		gomega.ContainSubstring("2 Clusters: 1 chart, 2 images, 0 CRDs"), gomega.ContainSubstring("# one\n"),
		gomega.ContainSubstring("# two\n"),
		gomega.MatchRegexp(`(?m)^billed +Image +`+signed+` +sha256:[0-9a-f]{12} +1 signature$`),
		gomega.MatchRegexp(`(?m)^billed +Image +`+plain+` +sha256:[0-9a-f]{12}$`)))
	list := b.file("bill.json", []byte(b.mustRun("bill", "billed", "-o", "json")))

	gap := "oci://" + b.Host() + "/gap"
	missing := []string{"bill", "--from", list, "--missing-in", gap}
	output, code := b.run(missing...)
	s.Expect(code).To(gomega.Equal(1), output)
	s.Expect(output).To(gomega.And(gomega.ContainSubstring("4 artifacts are missing in "+gap),
		gomega.MatchRegexp(`(?m)^Signature +`+signed)))
	mirror := []string{"mirror", "--from-bill", list, "--to", gap, "--lock", filepath.Join(s.TempDir(), "lock.yaml")}
	s.Expect(b.mustRun(mirror...)).To(gomega.ContainSubstring("[3/3] " + signed + ": copied "))
	s.Expect(b.mustRun(missing...)).To(gomega.ContainSubstring("Nothing is missing in " + gap))
	s.Expect(strings.Count(b.mustRun(mirror...), "the target has it")).To(gomega.Equal(3))
}

// waitsForImages installs and upgrades a release only while its image is in the registry.
func (b *billed) waitsForImages() {
	s := b.scenario
	first, second := b.image("first"), b.Host()+"/second:1"
	helmOp := s.noteFrom(b.Registry, "checked", "charts/app", addonsv1.ArtifactReference{Tag: "1.0.0"})
	helmOp.Spec.Values = rawJSON(map[string]any{"image": first})
	helmOp.Spec.Preflight = &addonsv1.Preflight{Images: addonsv1.ImagesPreflightRequired}
	s.create(helmOp)
	s.eventually(helmOp, ready(2))

	s.setValues(helmOp, map[string]any{"image": second})
	one, two := s.workload("one"), s.workload("two")
	for _, w := range []*workload{one, two} {
		s.eventuallyWaits(helmOp, w.name, addonsv1.ImagesMissingReason, "1 image is not in the registry: "+second)
		w.eventuallyRevisions(releaseNamespace, "checked", "1 deployed")
	}
	s.Expect(s.mustCommand("status", "checked")).To(gomega.MatchRegexp(`2 alike: one, two +Waiting`))
	lookups := len(b.Requests(registry.In("second")))
	b.image("second")
	s.mustCommand("retry", "checked", "--wait", "--timeout", patience.String())
	one.eventuallyRevisions(releaseNamespace, "checked", "1 superseded", "2 deployed")
	two.eventuallyRevisions(releaseNamespace, "checked", "1 superseded", "2 deployed")
	s.eventually(helmOp, ready(2), inPhase(2, addonsv1.RolloutPhaseComplete))
	s.Logf("%d requests for a missing image of 2 Clusters", lookups)

	// A registry that does not answer must not count as a registry that lacks the image.
	s.setValues(helmOp, map[string]any{"image": "127.0.0.9:1/app:1"})
	s.eventuallyWaits(helmOp, "one", addonsv1.ImagesUnknownReason, "1 image could not be looked up: 127.0.0.9:1/app:1")
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Preflight = nil })
	s.eventually(helmOp, ready(2), inPhase(3, addonsv1.RolloutPhaseComplete))
}

// eventuallyWaits waits until the release in a Cluster reports why it is not changed.
func (s *scenario) eventuallyWaits(helmOp *addonsv1.HelmOp, cluster, reason, text string) {
	s.Helper()
	s.child(helmOp, cluster, childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse, reason),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(conditions.GetMessage(child, addonsv1.ReleasedCondition)).To(gomega.ContainSubstring(text))
		})
}
