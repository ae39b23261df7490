// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"crypto/sha256"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// ownManager is the field manager of HelmOp's own writes. It is the first word of HelmOp's user agent.
const ownManager = "helmop"

// leaderAnnotation marks a ConfigMap or Endpoints object that is the lock of a leader election.
const leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"

// statusless are kinds without a status, for which every new resource version is a change.
var statusless = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}:      true,
	{Kind: "Secret"}:         true,
	{Kind: "ServiceAccount"}: true,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:               true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: true,
}

// busyAnnotations are prefixes of annotations in which Kubernetes controllers store status.
var busyAnnotations = []string{
	"deployment.kubernetes.io/",
	"deprecated.daemonset.template.generation",
	leaderAnnotation,
	"endpoints.kubernetes.io/last-change-trigger-time",
	"autoscaling.alpha.kubernetes.io/",
	"pv.kubernetes.io/",
	"volume.kubernetes.io/",
	"volume.beta.kubernetes.io/",
}

// managedEntry is one field manager's entry in an object.
type managedEntry struct {
	manager, operation, subresource, time string
	// fields is JSON, decoded or raw.
	fields any
}

// fingerprint returns a number that changes when the object changes, except for its status. It depends only on the
// object and not on the process, so it stays the same after a restart. If this algorithm changes, HelmOp compares all
// releases once.
func fingerprint(kind schema.GroupKind, obj metav1.Object, entries []managedEntry) uint64 {
	h := fnv.New64a()
	put(h, string(obj.GetUID()))
	if at := obj.GetDeletionTimestamp(); at != nil {
		put(h, "deleted")
	}
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		put(h, "l", key, labels[key])
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !slices.ContainsFunc(busyAnnotations, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			put(h, "a", key, annotations[key])
		}
	}
	for _, owner := range obj.GetOwnerReferences() {
		put(h, "o", owner.Kind, string(owner.UID))
	}
	switch generation := obj.GetGeneration(); {
	case annotations[leaderAnnotation] != "":
		// The holder of a lock updates it every few seconds.
	case statusless[kind]:
		put(h, "v", obj.GetResourceVersion())
	case generation > 0:
		put(h, "g")
		number(h, uint64(generation))
	default:
		for _, e := range entries {
			if e.subresource == "" {
				put(h, "m", e.manager, e.operation, e.time, canonical(e.fields))
			}
		}
	}
	return h.Sum64()
}

// put adds texts to a hash so that different lists of texts have different hashes.
func put(h hash.Hash, texts ...string) {
	for _, text := range texts {
		number(h, uint64(len(text)))
		_, _ = h.Write([]byte(text))
	}
}

func number(h hash.Hash, n uint64) {
	var buffer [8]byte
	binary.BigEndian.PutUint64(buffer[:], n)
	_, _ = h.Write(buffer[:])
}

// canonical returns JSON with sorted keys, so that both representations of an object give the same result.
func canonical(fields any) string {
	if raw, ok := fields.([]byte); ok {
		fields = nil
		if err := json.Unmarshal(raw, &fields); err != nil {
			return string(raw)
		}
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return ""
	}
	return string(data)
}

// managedEntries returns the entries of an object's field managers without copying them.
func managedEntries(obj metav1.Object) []managedEntry {
	var entries []managedEntry
	if u, ok := obj.(*unstructured.Unstructured); ok {
		metadata, _ := u.Object["metadata"].(map[string]any)
		items, _ := metadata["managedFields"].([]any)
		for _, item := range items {
			fields, ok := item.(map[string]any)
			if !ok {
				continue
			}
			entry := managedEntry{fields: fields["fieldsV1"]}
			entry.manager, _ = fields["manager"].(string)
			entry.operation, _ = fields["operation"].(string)
			entry.subresource, _ = fields["subresource"].(string)
			entry.time, _ = fields["time"].(string)
			entries = append(entries, entry)
		}
		return entries
	}
	for _, item := range obj.GetManagedFields() {
		entry := managedEntry{manager: item.Manager, operation: string(item.Operation), subresource: item.Subresource}
		if item.Time != nil {
			entry.time = item.Time.UTC().Format(time.RFC3339)
		}
		if item.FieldsV1 != nil {
			entry.fields = item.FieldsV1.GetRawBytes()
		}
		entries = append(entries, entry)
	}
	return entries
}

// lastOther returns the field manager that last changed something besides the status. It ignores HelmOp.
func lastOther(entries []managedEntry) string {
	var manager, latest string
	for _, e := range entries {
		// All times have one format and zone, so they are compared as texts.
		if e.subresource == "" && e.manager != ownManager && e.time >= latest {
			manager, latest = e.manager, e.time
		}
	}
	return manager
}

// optedOut reports whether an annotation or label excludes an object from drift detection.
func optedOut(obj metav1.Object) bool {
	const disabled = "Disabled"
	return obj.GetAnnotations()[addonsv1.DriftDetectionAnnotation] == disabled ||
		obj.GetLabels()[addonsv1.DriftDetectionAnnotation] == disabled
}

// digest returns a hash of the state of all objects, which must be sorted by name.
func digest(objects []object) string {
	h := sha256.New()
	for i := range objects {
		ref, o := objects[i].ref.Value(), &objects[i]
		put(h, ref.Group, ref.Version, ref.Kind, ref.Namespace, ref.Name)
		if o.exists {
			put(h, "exists")
			number(h, o.fingerprint)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}

// recordsDigest returns a hash of the fingerprints of Helm's records.
func recordsDigest(records map[string]uint64) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(records)) {
		put(h, name)
		number(h, records[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}
