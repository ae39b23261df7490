// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// shortDigest is the number of characters of a digest in a table.
const shortDigest = len("sha256:") + 12

// WriteText writes the bill for people, with a table for each group of Clusters. Digests are shortened unless wide is
// set.
func (b *Bill) WriteText(to io.Writer, wide bool) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s, %s, %s\n", plural.Count(b.Clusters, "Cluster", "Clusters"),
		plural.Count(len(b.Charts), "chart", "charts"), plural.Count(len(b.Images), "image", "images"),
		plural.Count(len(b.CRDs), "CRD", "CRDs"))
	for i := range b.Groups {
		group := &b.Groups[i]
		fmt.Fprintf(&out, "\n# %s\n", titleOf(group))
		if n := len(group.Offline); n > 0 {
			fmt.Fprintf(&out, "# %s rendered without a connection: %s\n", plural.Count(n, "Cluster is", "Clusters are"),
				plural.Few(group.Offline, fleetview.MaxNamedClusters))
		}
		if err := b.table(group, wide).Write(&out); err != nil {
			return err
		}
	}
	for line := range strings.Lines(out.String()) {
		if _, err := io.WriteString(to, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// titleOf returns a title with the names of the Clusters of a group.
func titleOf(group *Group) string {
	named := &fleetview.Group{Clusters: group.Clusters}
	return named.ClustersOf()
}

// table returns the table of a group.
func (b *Bill) table(group *Group, wide bool) *kube.Table {
	t := kube.NewTable(wide, false, "HELMOP", "KIND", "NAME", "DIGEST", "SIGNATURES")
	for i := range group.Releases {
		release := &group.Releases[i]
		if chart := b.Chart(release.Chart); chart != nil {
			name, _, _ := strings.Cut(chart.Name, "@")
			t.Add(release.HelmOp, "Chart", name, short(chart.Digest, wide),
				cmp.Or(release.Verification.text(), chart.attachedText()))
		}
		if release.Message != "" {
			t.Add(release.HelmOp, "Unknown", kube.Clip(release.Message, wide), "", "")
		}
		for _, name := range release.Images {
			if image := b.Image(name); image != nil {
				t.Add(release.HelmOp, "Image", name, short(image.Digest, wide), image.attachedText())
			}
		}
		for _, crd := range release.CRDs {
			t.Add(release.HelmOp, "CRD", crd.String(), "", "")
		}
	}
	return t
}

// short returns a digest for a table. It is shortened unless wide is set.
func short(digest string, wide bool) string {
	switch {
	case digest == "":
		return "<unknown>"
	case !wide && len(digest) > shortDigest:
		return digest[:shortDigest]
	default:
		return digest
	}
}

// text describes who signed a chart; empty if the HelmOp requires no signature.
func (v *Verification) text() string {
	switch {
	case v == nil:
		return ""
	case v.Message != "":
		return v.Provider + ": not verified"
	default:
		return v.Provider + ": verified, " + strings.Join(v.Signers, ", ")
	}
}

// attachedText returns the numbers of the artifacts that are attached to an artifact.
func (f *Findings) attachedText() string {
	var parts []string
	for _, kind := range []struct{ kind, one, many string }{
		{KindSignature, "signature", "signatures"}, {KindAttestation, "attestation", "attestations"},
		{KindSBOM, "SBOM", "SBOMs"}, {KindOther, "other artifact", "other artifacts"},
	} {
		n := 0
		for _, attached := range f.Attached {
			if attached.Kind == kind.kind {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, plural.Count(n, kind.one, kind.many))
		}
	}
	return strings.Join(parts, ", ")
}

// WriteMissing writes the missing artifacts of a registry, for people. If the bill is incomplete, it adds that more may
// be missing.
func WriteMissing(to io.Writer, registry string, missing []Missing, isIncomplete, wide bool) error {
	if len(missing) == 0 {
		text := "Nothing is missing in %s.\n"
		if isIncomplete {
			text = "Nothing is known to be missing in %s, but the list is incomplete.\n"
		}
		_, err := fmt.Fprintf(to, text, registry)
		return err
	}
	if _, err := fmt.Fprintf(to, "%s missing in %s:\n", plural.Count(len(missing), "artifact is", "artifacts are"),
		registry); err != nil {
		return err
	}
	t := kube.NewTable(wide, false, "KIND", "NAME", "TARGET", "DIGEST", "FOUND")
	for i := range missing {
		one := &missing[i]
		found := "<nothing>"
		if one.Found != "" {
			found = short(one.Found, wide)
		}
		name, _, _ := strings.Cut(one.Name, "@")
		t.Add(one.Kind, name, one.Target, short(one.Digest, wide), found)
	}
	return t.Write(to)
}
