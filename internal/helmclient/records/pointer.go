// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/jsonvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
)

// A record that is too large for a Secret, or that must be in a store, is split. Its payload is the whole original
// record, packed as usual. The pointer is a small Helm record in the usual Secret. It has the name, the revision, the
// status and the chart's metadata. A file in its chart holds the place of the payload, and the changes after the
// payload was put. So all tools that list releases list the pointer. The pointer survives when the helm command writes
// the Secret again.
const (
	// pointerFile is the name of the chart file in the pointer that holds the place of the payload.
	pointerFile = "helmop.payload.json"
	// pointerVersion is the version of the format of the file.
	pointerVersion = 1
	// PointerKind is the kind in the manifest of a pointer. No API server serves this kind. So the helm command refuses to
	// upgrade or uninstall the release. Otherwise it would treat the release as one without objects.
	PointerKind = "ReleasePayloadKeptElsewhere"
	// maxPointerNotes is the maximum length of the notes in a pointer, in bytes.
	maxPointerNotes = 16 << 10
	// maxPointerFile bounds the size of the file, in bytes.
	maxPointerFile = 512 << 10
	// maxPointerValues bounds the number of JSON values in the file. A file of the maximum size with the runs of hooks has
	// fewer values.
	maxPointerValues = 50_000
)

// pointer holds the place of a payload and the last runs of hooks.
type pointer struct {
	// Version is the version of the format.
	Version int `json:"version"`
	// ID is the name of the payload, see [payload.Name].
	ID string `json:"id"`
	// Revision is the revision for which the payload was made. The helm command may copy a pointer to another record.
	Revision int `json:"revision"`
	// Size is the size of the payload, in bytes.
	Size int `json:"size"`
	// Digest is the sha256 of the payload, as hex digits.
	Digest string `json:"digest"`
	// Chunks is the number of Secrets that hold the payload; 0 if it is not in the cluster.
	Chunks int `json:"chunks,omitempty"`
	// Place is the place of a payload outside of the cluster; Key is its encryption key.
	Place *payload.Place `json:"place,omitempty"`
	Key   []byte         `json:"key,omitempty"`
	// Hooks are the last runs of hooks.
	Hooks []hookRun `json:"hooks,omitempty"`
}

// hookRun is the last run of a hook.
type hookRun struct {
	// Index is the index of the hook in the record.
	Index int                   `json:"index"`
	Run   release.HookExecution `json:"run"`
}

// payloadIDSize is the number of bytes in the ID of a payload.
const payloadIDSize = 16

var payloadID = regexp.MustCompile(fmt.Sprintf("^[0-9a-f]{%d}$", 2*payloadIDSize))

// digestOf returns the sha256 of data, as hex digits.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// pointerRecord returns the pointer for a release.
func pointerRecord(rls *release.Release, to pointer) (*release.Release, error) {
	to.Hooks = nil
	for i, hook := range rls.Hooks {
		if hook != nil && (!hook.LastRun.StartedAt.IsZero() || hook.LastRun.Phase != "") {
			to.Hooks = append(to.Hooks, hookRun{Index: i, Run: hook.LastRun})
		}
	}
	file, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	info := *rls.Info
	if len(info.Notes) > maxPointerNotes {
		info.Notes = ""
	}
	info.Resources = nil
	small := &release.Release{
		Name: rls.Name, Namespace: rls.Namespace, Version: rls.Version, Labels: rls.Labels, Info: &info,
		Manifest: pointerManifest(rls),
		Chart:    &chart.Chart{Files: []*chart.File{{Name: pointerFile, Data: file}}},
	}
	if rls.Chart != nil {
		small.Chart.Metadata = rls.Chart.Metadata
	}
	return small, nil
}

// pointerManifest returns the manifest of the pointer to a split record, for example for `helm get manifest`.
func pointerManifest(rls *release.Release) string {
	return fmt.Sprintf(`# HelmOp stores the manifest, hooks and values of this revision separately, see docs/storage.md.
# Upgrade, roll back and uninstall this release with its HelmOp: helm fails, because no cluster serves this kind.
apiVersion: %s
kind: %s
metadata: {name: %s, namespace: %s}
`, strings.TrimSuffix(model.LabelPrefix, "/")+"/v1", PointerKind, rls.Name, rls.Namespace)
}

// pointerOf returns the pointer in a record; nil if the record is not split.
func pointerOf(rls *release.Release) (*pointer, error) {
	damaged := func(what string) (*pointer, error) {
		return nil, helmerr.New(helmerr.ErrRecordDamaged, "the record of Helm revision %d is split, and "+
			"%s", rls.Version, what)
	}
	var file *chart.File
	if rls.Chart != nil && len(rls.Chart.Files) == 1 && rls.Chart.Files[0] != nil &&
		rls.Chart.Files[0].Name == pointerFile {
		file = rls.Chart.Files[0]
	}
	isPointer := strings.Contains(rls.Manifest, "\nkind: "+PointerKind+"\n")
	switch {
	case file == nil && isPointer:
		return damaged("the pointer to the second part is missing: restore the Secret from a backup of the cluster")
	case file == nil || !isPointer:
		return nil, nil
	case len(file.Data) > maxPointerFile, jsonvalues.Count(file.Data) > maxPointerValues:
		return damaged("the pointer to the second part is too large: restore the Secret from a backup of the cluster")
	}
	to := &pointer{}
	// The error of the decoder is dropped because it may quote its input, for example the key.
	if json.Unmarshal(file.Data, to) != nil {
		return damaged("the pointer to the second part cannot be decoded: restore the Secret from a backup of the cluster")
	}
	if to.Version != pointerVersion {
		return damaged(fmt.Sprintf("its format %d needs a newer version of HelmOp: update HelmOp", to.Version))
	}
	if !to.isValid() {
		return damaged("the pointer to the second part is invalid: restore the Secret from a backup of the cluster")
	}
	return to, nil
}

// isValid reports whether this package could have written the pointer. The pointer bounds the size of the payload that
// is read: neither the cluster nor a store may fill the memory of this process.
func (to *pointer) isValid() bool {
	switch {
	case !payloadID.MatchString(to.ID), to.Revision < 1, to.Size < 1:
		return false
	case to.Place == nil:
		return to.Size <= model.MaxClusterPayload && to.Chunks == chunkCount(to.Size)
	default:
		return to.Size <= model.MaxStoredPayload && to.Chunks == 0 && to.Place.Size == int64(to.Size)+sealOverhead
	}
}

// whole combines a pointer and its payload to a release. The release shares fields that do not change with the payload.
func (to *pointer) whole(small, content *release.Release) *release.Release {
	whole := *content
	info := *small.Info
	info.Notes = cmp.Or(info.Notes, content.Info.Notes)
	whole.Name, whole.Namespace, whole.Version, whole.Info, whole.Labels = small.Name, small.Namespace, small.Version,
		&info, small.Labels
	whole.Hooks = make([]*release.Hook, len(content.Hooks))
	for i, hook := range content.Hooks {
		if hook == nil {
			continue
		}
		copied := *hook
		copied.LastRun = release.HookExecution{}
		whole.Hooks[i] = &copied
	}
	for _, run := range to.Hooks {
		if run.Index >= 0 && run.Index < len(whole.Hooks) && whole.Hooks[run.Index] != nil {
			whole.Hooks[run.Index].LastRun = run.Run
		}
	}
	if content.Hooks == nil {
		whole.Hooks = nil
	}
	return &whole
}

// contentOf returns the digest of the manifests in a record. They must not change after the payload was put. Helm never
// changes them. The digest does not include the values: after values were read from JSON, their numbers have other
// types.
func contentOf(rls *release.Release) [sha256.Size]byte {
	sum := sha256.New()
	recordcodec.WriteBytes(sum, []byte(rls.Manifest))
	for _, hook := range rls.Hooks {
		if hook != nil {
			recordcodec.WriteBytes(sum, []byte(hook.Manifest))
		}
	}
	return [sha256.Size]byte(sum.Sum(nil))
}
