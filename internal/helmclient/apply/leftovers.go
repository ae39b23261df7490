// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

const (
	// maxLeftoverRevisions bounds the number of revisions whose objects are checked.
	maxLeftoverRevisions = 10
	// MaxLeftoverBytes bounds the size of their manifests, in bytes: above it, no further manifest is read.
	MaxLeftoverBytes = 32 << 20
)

// Leftovers holds the manifests of revisions that Helm does not check, although their objects may exist. An upgrade
// compares with the deployed revision and ignores objects of later, failed revisions. A rollback and an uninstallation
// check only the newest revision.
type Leftovers struct{ Manifests []string }

// UncheckedRevisions returns the revisions, newest first, that Helm does not check and whose objects may exist.
func UncheckedRevisions(history []*release.Release, decision decide.Decision) []*release.Release {
	var found []*release.Release
	for i, record := range history {
		if record.Info == nil || record.Info.Status == release.StatusUninstalled || len(found) == maxLeftoverRevisions {
			break
		}
		worked := record.Info.Status == release.StatusDeployed || record.Info.Status == release.StatusSuperseded
		switch {
		case i == 0 && worked:
			// Helm checks this revision, and no other revision has objects.
			return nil
		case decision.Action == model.ActionRollback && record.Version == decision.RollbackTo:
			if i > 0 {
				return found
			}
			continue
		case decision.Action.RendersChart() && record.Info.Status == release.StatusDeployed:
			return found
		}
		found = append(found, record)
		if worked && decision.Action != model.ActionRollback {
			// The action that created this revision deleted the objects of earlier revisions.
			return found
		}
	}
	return found
}

// NeverWorked reports whether HelmOp created all revisions of a history and none of them ever worked. If so, HelmOp
// created each object of the release, with the annotations of Helm. Objects without these annotations belong to other
// owners.
func NeverWorked(history []*release.Release) bool {
	for _, record := range history {
		if record.Info == nil || record.Labels[model.LabelRevision] != strconv.Itoa(record.Version) {
			return false
		}
		switch status := record.Info.Status; {
		case !record.Info.Deleted.IsZero() && record.Labels[model.LabelMayHaveWorked] == "true":
			// An uninstallation of the revision was given up. The revision worked before. The label alone does not show this:
			// an interrupted installation after the loss of all records may have it, too.
			return false
		case status == release.StatusFailed, status.IsPending():
		case status == release.StatusUninstalling && record.Labels[model.LabelNeverWorked] == "true":
		default:
			return false
		}
	}
	return true
}

// DigestsIn returns all digests of a revision as one text.
func DigestsIn(labels map[string]string) string {
	digests := make([]string, 0, len(model.DigestLabels))
	for _, key := range model.DigestLabels {
		digests = append(digests, labels[key])
	}
	return strings.Join(digests, "/")
}

// leftBehind returns the existing objects of failed revisions that belong to the release and are not in known. It does
// this once per action. It excludes an object if it has the keep policy in the cluster, or in the newest revision that
// contains the object.
func (k *Client) leftBehind(known kube.ResourceList) (kube.ResourceList, error) {
	behind := k.Leftovers
	k.Leftovers = nil
	if behind == nil {
		return nil, nil
	}
	var found kube.ResourceList
	known = slices.Clone(known)
	for _, manifest := range behind.Manifests {
		resources, err := k.Build(strings.NewReader(manifest), false)
		if err != nil {
			return nil, fmt.Errorf("reading the objects that failed Helm revisions left behind: %w", err)
		}
		for _, info := range resources.Difference(known) {
			known.Append(info)
			isLeft, err := k.mayDelete(info)
			if err != nil {
				return nil, fmt.Errorf("checking %s %q, which is no longer desired: %w", info.Mapping.GroupVersionKind.Kind,
					info.Name, err)
			}
			if isLeft {
				found.Append(info)
			}
		}
	}
	return found, nil
}

// mayDelete reports whether an object exists, belongs to the release and does not have the keep policy. The revision
// may have failed before it created the object, and another user may have created an object of the same name.
func (k *Client) mayDelete(info *resource.Info) (bool, error) {
	if isKeptByManifest(info) {
		return false, nil
	}
	observed, err := k.read(info)
	if err != nil {
		return false, helmerr.IgnoreNotFound(err)
	}
	return k.Owner.owns(observed.annotations) && observed.annotations[kube.ResourcePolicyAnno] != kube.KeepPolicy, nil
}

// isKeptByManifest reports whether an object has the keep policy in the manifest of its revision. For an upgrade, Helm
// itself reads only the annotation in the cluster, which another user may have removed.
func isKeptByManifest(info *resource.Info) bool {
	recorded, err := meta.Accessor(info.Object)
	return err == nil && recorded.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy
}

// HasSurvivors reports whether an installation that failed before it created an object of its manifest, for example
// because a hook failed, would take over an object of the release. Such an object survived an earlier installation. The
// result is also true if this cannot be determined. After the installation has created or applied objects, the result
// is false: Found was called if there are such objects.
func (k *Client) HasSurvivors() bool {
	for _, info := range k.planned {
		if survives, err := k.mayDelete(info); survives || err != nil {
			return true
		}
	}
	return false
}
