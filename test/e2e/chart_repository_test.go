// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/provenance"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/chartrepository"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// TestChartRepository installs a chart from a private chart repository, follows new versions, refuses replaced ones,
// and requires provenance files.
func TestChartRepository(t *testing.T) {
	s := newScenario(t)
	s.clusters(testbed.ClusterOptions{Name: "one"}, testbed.ClusterOptions{Name: "two"})

	s.part("a private repository", func(s *scenario) {
		r := s.chartRepository()
		r.RequireLogin("reader", "planted-password")
		s.addChart(r, "1.0.0", "first")
		helmOp := s.fromCharts(r, "private", addonsv1.ArtifactReference{Semver: "^1.0"})
		s.create(helmOp)
		s.eventually(helmOp, condition(addonsv1.ResolvedCondition, metav1.ConditionFalse,
			addonsv1.RegistryAuthenticationFailedReason))
		login := s.opaque("charts-login",
			map[string][]byte{"username": []byte("reader"), "password": []byte("planted-password")})
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.SecretRef = login })
		s.eventually(helmOp, ready(2), hasVersion("1.0.0"))

		second := s.addChart(r, "1.1.0", "second")
		s.addChart(r, "2.0.0", "out of range")
		s.eventually(helmOp, ready(2), hasVersion("1.1.0"))
		requests, notModified := r.Requests()
		for _, version := range []string{"1.0.0", "1.1.0"} {
			s.Expect(requests[archiveName(s, version)]).To(gomega.Equal(1), "one pull of %s for all Clusters", version)
		}
		// The index was read without a login, then at most once for each of its three contents.
		s.Expect(requests["index.yaml"]-notModified).To(gomega.BeNumerically("<=", r.Refused()+3),
			"%d of %d requests were conditional", notModified, requests["index.yaml"])

		replaced := s.addChart(r, "1.1.0", "replaced")
		refused := s.eventually(helmOp, condition(addonsv1.ResolvedCondition, metav1.ConditionFalse,
			addonsv1.VersionMovedReason))
		s.Expect(refused.Status.Artifact.Digest).To(gomega.Equal(second))
		requests, _ = r.Requests()
		s.Expect(requests[archiveName(s, "1.1.0")]).To(gomega.Equal(1), "the new archive is not pulled")
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.AllowMovedVersion = true })
		moved := s.eventually(helmOp, ready(2), hasVersion("1.1.0"), hasDigest(replaced))
		s.Expect(moved.Status.Artifact.URL).To(gomega.Equal(r.URL() + "/" + chartName(s)))

		s.Expect(s.mustCommand("preview", "private")).To(gomega.ContainSubstring("2 of 2 alike: one, two: no changes"))
		s.Expect(s.mustCommand("render", "private", "--cluster", "one")).To(gomega.ContainSubstring("replaced"))
		s.Expect(s.mustCommand("versions", "--check-registry")).To(gomega.ContainSubstring("2.0.0"))
	})

	s.part("a provenance file", func(s *scenario) {
		r := s.chartRepository()
		s.addChart(r, "1.0.0", "signed")
		signer, err := openpgp.NewEntity("publisher", "", "publisher@example.com", nil)
		s.must(err)
		var public bytes.Buffer
		s.must(signer.Serialize(&public))
		keys := s.opaque("publishers", map[string][]byte{"publisher.gpg": public.Bytes()})
		helmOp := s.fromCharts(r, "signed", addonsv1.ArtifactReference{Semver: "*"})
		helmOp.Spec.Source.Verify = &addonsv1.Verification{Provider: addonsv1.VerificationProviderHelmProvenance,
			SecretRef: keys}
		s.create(helmOp)
		s.eventually(helmOp, condition(addonsv1.VerifiedCondition, metav1.ConditionFalse,
			addonsv1.SignatureNotFoundReason))
		r.SetFile(archiveName(s, "1.0.0")+".prov", s.provenanceOf(signer, "1.0.0", "signed"))
		verified := s.eventually(helmOp, ready(2))
		s.Expect(verified.Status.Artifact.Verification.Signers).To(gomega.ConsistOf(
			gomega.ContainSubstring("publisher@example.com")))
	})
}

// chartName is a name that no other scenario uses, so that the manager's store does not have the charts.
func chartName(s *scenario) string { return "charts-" + s.namespace }

func archiveName(s *scenario, version string) string {
	return fmt.Sprintf("%s-%s.tgz", chartName(s), version)
}

// chartRepository starts a chart repository for this scenario.
func (s *scenario) chartRepository() *chartrepository.Repository {
	r := chartrepository.Start()
	s.Cleanup(r.Close)
	return r
}

// chart returns a chart with a ConfigMap that has a text.
func (s *scenario) chart(version, text string) registry.Chart {
	return registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: " + chartName(s) + "\nversion: " + version + "\n",
		"templates/configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\n" +
			"data: {text: " + text + "}\n",
	})
}

// addChart adds a version to a repository, or replaces it, and returns the digest of the archive.
func (s *scenario) addChart(r *chartrepository.Repository, version, text string) string {
	s.Helper()
	digest, err := r.Add(s.chart(version, text))
	s.must(err)
	return digest
}

// fromCharts makes a HelmOp install the chart in all Clusters.
func (s *scenario) fromCharts(r *chartrepository.Repository, name string,
	ref addonsv1.ArtifactReference,
) *addonsv1.HelmOp {
	s.Helper()
	ca := s.opaque(name+"-ca", map[string][]byte{"ca.crt": r.CA()})
	return s.newHelmOp(name, forAll, func(helmOp *addonsv1.HelmOp) {
		helmOp.Spec.Values = nil
		helmOp.Spec.Source = addonsv1.ArtifactSource{URL: r.URL(), Chart: chartName(s), Ref: ref, Interval: sourceInterval,
			CertSecretRef: ca}
	})
}

// provenanceOf returns the provenance file of a chart.
func (s *scenario) provenanceOf(signer *openpgp.Entity, version, text string) []byte {
	s.Helper()
	archive, err := s.chart(version, text)()
	s.must(err)
	path := filepath.Join(s.TempDir(), archiveName(s, version))
	s.must(os.WriteFile(path, archive, 0o600))
	signed, err := (&provenance.Signatory{Entity: signer}).ClearSign(path)
	s.must(err)
	return []byte(signed)
}

func hasVersion(version string) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, helmOp *addonsv1.HelmOp) {
		g.Expect(helmOp.Status.Artifact).NotTo(gomega.BeNil())
		g.Expect(helmOp.Status.Artifact.Version).To(gomega.Equal(version))
	}
}

func hasDigest(digest string) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, helmOp *addonsv1.HelmOp) {
		g.Expect(helmOp.Status.Artifact).NotTo(gomega.BeNil())
		g.Expect(helmOp.Status.Artifact.Digest).To(gomega.Equal(digest))
	}
}
