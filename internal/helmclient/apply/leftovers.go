// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const (
	// maxLeftoverRevisions bounds the number of revisions whose objects are checked.
	maxLeftoverRevisions = 10
	// MaxLeftoverBytes bounds the size of their manifests, in bytes: above it, no further manifest is read.
	MaxLeftoverBytes = 32 << 20
)

// Leftovers holds revisions that Helm does not check, although their objects may exist. An upgrade compares with the
// deployed revision and ignores objects of later, failed revisions. A rollback and an uninstallation check only the
// newest revision.
type Leftovers struct {
	// Revisions are the revisions, newest first.
	Revisions []LeftRevision
	// HasBaseline means that Helm compares with the newest revision, and that this revision failed. Then it is the first
	// of Revisions.
	HasBaseline bool
}

// LeftRevision is one revision, or several revisions with the same content.
type LeftRevision struct {
	Manifest string
	// Worked means that a revision worked, so that all its objects belong to the release.
	Worked bool
	// Since is when the first action on a revision began, by the clock of the API server; zero if it is unknown. A failed
	// action may have taken over objects that are older.
	Since time.Time
}

// Worked reports whether a revision worked, according to its status.
func Worked(record *release.Release) bool {
	return record.Info.Status != release.StatusFailed && !record.Info.Status.IsPending() || wasUninstalled(record)
}

// wasUninstalled reports whether a revision that worked is failed because its uninstallation was given up. The label
// alone does not show this: an interrupted installation after the loss of all records may have it, too.
func wasUninstalled(record *release.Release) bool {
	return !record.Info.Deleted.IsZero() && record.Labels[model.LabelMayHaveWorked] == "true"
}

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
		case wasUninstalled(record):
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

// leftObjects are the objects of Leftovers.
type leftObjects struct {
	revisions []leftRevision
	// hasBaseline is [Leftovers].HasBaseline.
	hasBaseline bool
}

// leftRevision is a LeftRevision with its objects.
type leftRevision struct {
	LeftRevision
	objects kube.ResourceList
}

// takeLeftovers builds the objects of Leftovers. It does this once per action.
func (k *Client) takeLeftovers() (leftObjects, error) {
	behind := k.Leftovers
	k.Leftovers = nil
	if behind == nil {
		return leftObjects{}, nil
	}
	left := leftObjects{hasBaseline: behind.HasBaseline}
	for _, revision := range behind.Revisions {
		objects, err := k.Build(strings.NewReader(revision.Manifest), false)
		if err != nil {
			return leftObjects{}, fmt.Errorf("reading the objects that failed Helm revisions left behind: %w", err)
		}
		left.revisions = append(left.revisions, leftRevision{LeftRevision: revision, objects: objects})
	}
	return left, nil
}

// hasMade reports whether the revisions created an object. A failed revision may only have taken it over: then the
// object may hold the data of its owner, and the deletion of a CustomResourceDefinition would delete all its objects.
// If this is not certain, the result is false.
func (l leftObjects) hasMade(info *resource.Info, observed *objectinfo.State) bool {
	var since time.Time
	for _, revision := range l.revisions {
		switch {
		case !revision.objects.Contains(info):
		case revision.Worked:
			return true
		default:
			since = model.Earlier(since, revision.Since)
		}
	}
	switch {
	case since.IsZero():
		return false
	case observed.Created.Equal(since):
		// These times have no fractions of a second, and the first objects are often created in the second of the record.
		return observed.IsMade
	default:
		return observed.Created.After(since)
	}
}

// undesired returns the objects that an update deletes: the objects of original that are not in target, and the objects
// that failed revisions left behind. If original failed, it may only have taken over objects, so they stay.
func (k *Client) undesired(left leftObjects, original, target kube.ResourceList) (kube.ResourceList, error) {
	var undesired kube.ResourceList
	for _, info := range original.Difference(target) {
		if objectinfo.IsKeptByManifest(info) || k.InCRDFolder(objectinfo.RefOf(info)) {
			continue
		}
		if left.hasBaseline {
			observed, err := objectinfo.Read(k.Ctx, info)
			if err := helmerr.IgnoreNotFound(err); err != nil {
				return nil, uncheckedError(info, err)
			}
			if err == nil && !left.hasMade(info, observed) {
				k.Log("not deleting %s %q: a failed Helm revision only took it over", info.Mapping.GroupVersionKind.Kind,
					info.Name)
				continue
			}
		}
		undesired.Append(info)
	}
	behind, err := k.leftBehind(left, append(slices.Clone(target), original...))
	return append(undesired, behind...), err
}

// InCRDFolder reports whether an object is a CustomResourceDefinition that the chart may have in its folders crds. If a
// chart moves it there from its templates, it is no longer in the manifest, but its deletion would delete all its
// objects.
func (k *Client) InCRDFolder(ref inventory.Ref) bool {
	return ref.Group == apiextensions.GroupName && ref.Kind == "CustomResourceDefinition" && k.KeepsCRD != nil &&
		k.KeepsCRD(ref.Name)
}

// uncheckedError returns the error for an object whose owner could not be read.
func uncheckedError(info *resource.Info, err error) error {
	return fmt.Errorf("checking %s %q, which is no longer desired: %w", info.Mapping.GroupVersionKind.Kind, info.Name, err)
}

// leftBehind returns the existing objects of failed revisions that belong to the release and are not in known. It
// excludes an object if it has the keep policy in the cluster, or in the newest revision that contains the object.
func (k *Client) leftBehind(left leftObjects, known kube.ResourceList) (kube.ResourceList, error) {
	var found kube.ResourceList
	known = slices.Clone(known)
	for _, revision := range left.revisions {
		for _, info := range revision.objects.Difference(known) {
			known.Append(info)
			if k.InCRDFolder(objectinfo.RefOf(info)) {
				continue
			}
			observed, err := k.mayDelete(info)
			if err != nil {
				return nil, uncheckedError(info, err)
			}
			isLeft := observed != nil && left.hasMade(info, observed)
			if isLeft {
				found.Append(info)
			}
		}
	}
	return found, nil
}

// leftBehindBy does the same as leftBehind for the objects of Leftovers.
func (k *Client) leftBehindBy(known kube.ResourceList) (kube.ResourceList, error) {
	left, err := k.takeLeftovers()
	if err != nil {
		return nil, err
	}
	return k.leftBehind(left, known)
}

// mayDelete returns the state of an object if it exists, belongs to the release and does not have the keep policy;
// otherwise nil. The revision may have failed before it created the object, and another user may have created an object
// of the same name.
func (k *Client) mayDelete(info *resource.Info) (*objectinfo.State, error) {
	if objectinfo.IsKeptByManifest(info) {
		return nil, nil
	}
	observed, err := objectinfo.Read(k.Ctx, info)
	if err != nil {
		return nil, helmerr.IgnoreNotFound(err)
	}
	if !k.Owner.Owns(observed.Annotations) || inventory.IsKept(observed.Annotations) {
		return nil, nil
	}
	return observed, nil
}

// HasSurvivors reports whether an installation that failed before it created an object of its manifest, for example
// because a hook failed, would take over an object of the release. Such an object survived an earlier installation. The
// namespace that this action has created does not count. The result is also true if this cannot be determined. After
// the installation has created or applied objects, the result is false: Found was called if there are such objects.
func (k *Client) HasSurvivors() bool {
	for _, info := range k.planned {
		if k.isMade != nil && k.isMade(info) {
			continue
		}
		if survives, err := k.mayDelete(info); survives != nil || err != nil {
			return true
		}
	}
	return false
}
