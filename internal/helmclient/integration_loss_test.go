// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// keptConfigMap is a ConfigMap with the keep policy.
const keptConfigMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kept\n  annotations:\n" +
	"    helm.sh/resource-policy: keep\ndata:\n  key: \"1\"\n"

// TestIntegrationAdmitBeforeDeletions checks that an upgrade or a rollback calls Admit with all objects that it would
// delete. If Admit returns an error, nothing is changed or recorded.
func TestIntegrationAdmitBeforeDeletions(t *testing.T) {
	b := newBench(t)
	one := helmtest.NewChart("1.0.0",
		map[string]string{"a.yaml": helmtest.ConfigMap("a", "1"), "b.yaml": helmtest.ConfigMap("b", "1"),
			"c.yaml": helmtest.ConfigMap("c", "1"), "k.yaml": keptConfigMap})
	less := helmtest.NewChart("2.0.0", map[string]string{"a.yaml": helmtest.ConfigMap("a", "2")})
	var asked []model.Loss
	var refusal error
	b.options.Admit = func(loss model.Loss) error {
		asked = append(asked, loss)
		return refusal
	}
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	b.converge(desired, one, nil)
	if len(asked) > 0 {
		t.Fatalf("an install deletes %+v", asked)
	}

	refusal = errors.New("not confirmed")
	desired.ArtifactDigest = "a2"
	decision := b.decide(desired, model.Policy{})
	_, err := b.act(decision, desired, less, nil)
	helmtest.WantError(t, err, helmerr.ErrRefused, false, "not confirmed")
	want := []inventory.Ref{
		{Version: "v1", Kind: "ConfigMap", Namespace: b.namespace, Name: "b"},
		{Version: "v1", Kind: "ConfigMap", Namespace: b.namespace, Name: "c"},
	}
	if len(asked) != 1 || len(asked[0].Objects) != 2 || asked[0].Objects[0] != want[0] || asked[0].Objects[1] != want[1] ||
		asked[0].Total != 4 || asked[0].Revision != 1 {
		t.Errorf("asked for %+v", asked)
	}
	b.wantRecords(desired, "1 deployed")
	b.wantConfigMap("a", "1")
	b.wantConfigMap("b", "1")

	refusal = nil
	b.converge(desired, less, nil)
	b.wantRecords(desired, "2 deployed", "1 superseded")
	b.wantNoConfigMap("b")

	// Objects of a failed revision are also deleted if the next revision does not have them.
	desired.ArtifactDigest = "a3"
	broken := helmtest.NewChart("3.0.0",
		map[string]string{"a.yaml": helmtest.ConfigMap("a", "3"), "d.yaml": helmtest.ConfigMap("d", "1"),
			"z.yaml": brokenService})
	if _, err := b.act(b.decide(desired, model.Policy{}), desired, broken, nil); err == nil {
		t.Fatal("it succeeds")
	}
	b.wantConfigMap("d", "1")
	asked, refusal = nil, errors.New("not confirmed")
	desired.ArtifactDigest = "a4"
	_, err = b.act(b.decide(desired, model.Policy{}), desired,
		helmtest.NewChart("4.0.0", map[string]string{"a.yaml": helmtest.ConfigMap("a", "4")}), nil)
	helmtest.WantError(t, err, helmerr.ErrRefused, false)
	if len(asked) != 1 || len(asked[0].Objects) == 0 || asked[0].Objects[0].Name != "d" {
		t.Errorf("asked for %+v", asked)
	}
	b.wantConfigMap("d", "1")
}

// TestIntegrationAdmitBeforeUninstall checks that an uninstallation calls Admit with all objects that it would delete.
// If Admit returns an error, the release stays as it is.
func TestIntegrationAdmitBeforeUninstall(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	b.converge(desired, helmtest.NewChart("1.0.0", map[string]string{"a.yaml": helmtest.ConfigMap("a", "1"),
		"k.yaml": keptConfigMap}), nil)
	var asked []model.Loss
	refusal := errors.New("not confirmed")
	b.options.Admit = func(loss model.Loss) error {
		asked = append(asked, loss)
		return refusal
	}
	uninstall := decide.Uninstall(b.observe(desired), desired, model.Policy{}, time.Now())
	_, err := b.act(uninstall, desired, nil, nil)
	helmtest.WantError(t, err, helmerr.ErrRefused, false, "not confirmed")
	if len(asked) != 1 || len(asked[0].Objects) != 1 || asked[0].Objects[0].Name != "a" || asked[0].Total != 2 ||
		asked[0].Revision != 1 || !asked[0].Uninstalls || asked[0].NeverWorked {
		t.Errorf("asked for %+v", asked)
	}
	b.wantRecords(desired, "1 deployed")
	b.wantConfigMap("a", "1")

	refusal = nil
	if _, err := b.act(uninstall, desired, nil, nil); err != nil {
		t.Fatal(err)
	}
	b.wantNoConfigMap("a")
	b.wantRecords(desired)
}

// TestIntegrationManifestKeepsObjects checks that an upgrade does not delete an object with the keep policy in the
// manifest, even if a user removed the annotation in the cluster: Admit did not count this object.
func TestIntegrationManifestKeepsObjects(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	b.converge(desired, helmtest.NewChart("1.0.0", map[string]string{"a.yaml": helmtest.ConfigMap("a", "1"),
		"k.yaml": keptConfigMap}), nil)
	b.patchConfigMap("kept", `{"metadata":{"annotations":{"helm.sh/resource-policy":null}}}`)
	desired.ArtifactDigest = "a2"
	b.converge(desired, helmtest.NewChart("2.0.0", map[string]string{"a.yaml": helmtest.ConfigMap("a", "2")}), nil)
	b.wantConfigMap("kept", "1")
}
