/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"
)

const (
	// maxLeftoverRevisions bounds the revisions that are read to learn what they may have left behind.
	maxLeftoverRevisions = 10
	// maxLeftoverBytes bounds their manifests together: once they have more, no further one is read.
	maxLeftoverBytes = 32 << 20
)

// leftovers are the manifests of revisions that Helm does not look at, although objects of them may exist: an upgrade
// compares with the revision that is deployed, and knows nothing of what failed ones after it created; a rollback and
// an uninstall look at the newest revision alone.
type leftovers struct{ manifests []string }

// findLeftovers has the action delete what revisions that Helm does not look at have left behind and the new one, if
// there is one, does not have. It reads nothing more than Helm unless the newest revision failed or was cut off.
func (s *session) findLeftovers(decision Decision, desired Desired) error {
	if s.cluster == nil {
		return nil
	}
	history, err := s.config.Releases.History(desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the history: %w", err)
	}
	history = slices.Clone(history)
	releaseutil.Reverse(history, releaseutil.SortByRevision)
	found := &leftovers{}
	size, known := 0, map[string]bool{}
	if decision.Action.rendersChart() {
		known[digestsIn(desiredLabels(desired))] = true
	}
	for _, record := range suspects(history, decision) {
		key := digestsIn(record.Labels)
		if record.Labels[LabelRevision] != strconv.Itoa(record.Version) {
			// Another hand made it: the digests mean nothing.
			key = strconv.Itoa(record.Version)
		}
		if known[key] && record.Manifest == "" {
			continue
		}
		known[key] = true
		manifest, err := s.manifestOf(record)
		if err != nil {
			return err
		}
		found.manifests = append(found.manifests, manifest)
		if size += len(manifest); size > maxLeftoverBytes {
			break
		}
	}
	s.cluster.leftovers = found
	return nil
}

// suspects returns the revisions, newest first, of which objects may exist although Helm does not look at them.
func suspects(history []*release.Release, decision Decision) []*release.Release {
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
		case decision.Action == ActionRollback && record.Version == decision.RollbackTo:
			if i > 0 {
				return found
			}
			continue
		case decision.Action.rendersChart() && record.Info.Status == release.StatusDeployed:
			return found
		}
		found = append(found, record)
		if worked && decision.Action != ActionRollback {
			// What came before was seen to when it was made.
			return found
		}
	}
	return found
}

// digestsIn returns one text for what a revision was made from.
func digestsIn(labels map[string]string) string {
	digests := make([]string, 0, len(digestLabels))
	for _, key := range digestLabels {
		digests = append(digests, labels[key])
	}
	return strings.Join(digests, "/")
}

// manifestOf returns the manifest of a record, of which the history may hold the metadata alone.
func (s *session) manifestOf(record *release.Release) (string, error) {
	if record.Manifest != "" {
		return record.Manifest, nil
	}
	whole, err := s.config.Releases.Get(record.Name, record.Version)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading revision %d: %w", record.Version, err)
	}
	return whole.Manifest, nil
}

// leftBehind returns, once in an action, the objects of the leftovers which are not among those given, exist, belong to
// the release and are not to be kept: neither according to the cluster nor to the newest revision that has them.
func (k *kubeClient) leftBehind(known kube.ResourceList) (kube.ResourceList, error) {
	behind := k.leftovers
	k.leftovers = nil
	if behind == nil {
		return nil, nil
	}
	var found kube.ResourceList
	known = slices.Clone(known)
	for _, manifest := range behind.manifests {
		resources, err := k.Build(strings.NewReader(manifest), false)
		if err != nil {
			return nil, fmt.Errorf("what failed revisions left behind: %w", err)
		}
		for _, info := range resources.Difference(known) {
			known.Append(info)
			ours, err := k.mayDelete(info)
			if err != nil {
				return nil, fmt.Errorf("looking for %s %q, which is no longer wanted: %w", info.Mapping.GroupVersionKind.Kind, info.Name, err)
			}
			if ours {
				found.Append(info)
			}
		}
	}
	return found, nil
}

// mayDelete reports whether an object exists, belongs to the release and is not to be kept: the revision may have failed
// before it made the object, and somebody else may have made one of that name.
func (k *kubeClient) mayDelete(info *resource.Info) (bool, error) {
	wanted, err := meta.Accessor(info.Object)
	if err != nil || wanted.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy {
		return false, err
	}
	seen, err := k.look(info)
	if err != nil {
		return false, ignoreNotFound(err)
	}
	return k.owner.owns(seen.annotations) && seen.annotations[kube.ResourcePolicyAnno] != kube.KeepPolicy, nil
}
