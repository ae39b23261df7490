// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"slices"
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
	// maxLeftoverRevisions bounds the revisions that are read to find the objects that they may have left behind.
	maxLeftoverRevisions = 10
	// MaxLeftoverBytes bounds their manifests together: once they have more, no further one is read.
	MaxLeftoverBytes = 32 << 20
)

// Leftovers are the manifests of revisions that Helm does not look at, although objects of them may exist: an upgrade
// compares with the revision that is deployed, and knows nothing of what failed ones after it created; a rollback and
// an uninstall look at the newest revision alone.
type Leftovers struct{ Manifests []string }

// Suspects returns the revisions, newest first, that may have objects in the cluster which Helm does not check.
func Suspects(history []*release.Release, decision decide.Decision) []*release.Release {
	var found []*release.Release
	for i, record := range history {
		if record.Info == nil || record.Info.Status == release.StatusUninstalled || len(found) == maxLeftoverRevisions {
			break
		}
		worked := record.Info.Status == release.StatusDeployed || record.Info.Status == release.StatusSuperseded
		switch {
		case i == 0 && worked:
			// Helm looks at it, and its objects are all there are.
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
			// What came before was seen to when it was made.
			return found
		}
	}
	return found
}

// DigestsIn returns all digests of a revision as one text.
func DigestsIn(labels map[string]string) string {
	digests := make([]string, 0, len(model.DigestLabels))
	for _, key := range model.DigestLabels {
		digests = append(digests, labels[key])
	}
	return strings.Join(digests, "/")
}

// LeftBehind returns, once per action, the objects of failed revisions that are not among the given ones, exist, and
// belong to the release. It excludes objects that must be kept according to the cluster or to the newest revision that
// has them.
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
			return nil, fmt.Errorf("reading the objects that failed revisions left behind: %w", err)
		}
		for _, info := range resources.Difference(known) {
			known.Append(info)
			ours, err := k.mayDelete(info)
			if err != nil {
				return nil, fmt.Errorf("checking %s %q, which is no longer desired: %w", info.Mapping.GroupVersionKind.Kind,
					info.Name, err)
			}
			if ours {
				found.Append(info)
			}
		}
	}
	return found, nil
}

// mayDelete reports whether an object exists, belongs to the release and has no policy to keep it. The revision may
// have failed before it created the object, and another user may have created one of that name.
func (k *Client) mayDelete(info *resource.Info) (bool, error) {
	wanted, err := meta.Accessor(info.Object)
	if err != nil || wanted.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy {
		return false, err
	}
	seen, err := k.look(info)
	if err != nil {
		return false, helmerr.IgnoreNotFound(err)
	}
	return k.Owner.owns(seen.annotations) && seen.annotations[kube.ResourcePolicyAnno] != kube.KeepPolicy, nil
}
