// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capilabels "sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// MaxNamedObjects is how many objects a message names.
	MaxNamedObjects = 3

	// KindSecret is a kind that HelmOps refer to.
	KindSecret = "Secret"

	// KindConfigMap is a kind that HelmOps refer to.
	KindConfigMap = "ConfigMap"

	// KindServiceAccount is a kind that HelmOps refer to.
	KindServiceAccount = "ServiceAccount"

	// MetadataPage bounds what one answer about the objects of other shards holds.
	MetadataPage = 500

	// HelmOpKind is the kind of a HelmOp.
	HelmOpKind = "HelmOp"
)

// maxNameLength is what Kubernetes permits for the name of most objects.
const maxNameLength = 253

// ChildName is the name of the HelmOpRelease of a HelmOp and a Cluster, which is given as namespace/name where it is of
// another namespace. It is computed, not generated, so that a crash between two steps cannot make a second child. The
// hash keeps apart what the names alone would not ("a-b" and "c", "a" and "b-c").
func ChildName(helmOp, cluster string) string {
	sum := sha256.Sum256([]byte(helmOp + "/" + cluster))
	suffix := "-" + hex.EncodeToString(sum[:4])
	name := helmOp + "-" + strings.NewReplacer("/", "-", " ", "-").Replace(cluster)
	if len(name)+len(suffix) > maxNameLength {
		name = strings.TrimRight(name[:maxNameLength-len(suffix)], "-.")
	}
	return name + suffix
}

// DigestOf is the hexadecimal SHA-256 of the JSON of its arguments; equal arguments have equal digests.
func DigestOf(values ...any) (string, error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("computing a digest: %w", err)
	}
	return HexDigest(raw), nil
}

// HexDigest is the hexadecimal SHA-256 of a text.
func HexDigest[T []byte | string](text T) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Truncate shortens a message to at most limit bytes, at the border of a character.
func Truncate(message string, limit int) string {
	return truncate.Text(message, limit)
}

// HelmOpOf is the name of the HelmOp of a release; empty if it has none.
func HelmOpOf(release *addonsv1.HelmOpRelease) string {
	if owner := metav1.GetControllerOf(release); owner != nil && owner.Kind == HelmOpKind {
		return owner.Name
	}
	return ""
}

// FollowLabels hands the labels on by which managers share the work.
func FollowLabels(labels map[string]string, helmOp *addonsv1.HelmOp) {
	for _, key := range followedLabels {
		delete(labels, key)
		if value, ok := helmOp.Labels[key]; ok {
			labels[key] = value
		}
	}
}

// Follows tells whether an object has the labels that its HelmOp hands on.
func Follows(obj client.Object, helmOp *addonsv1.HelmOp) bool {
	return !slices.ContainsFunc(followedLabels, func(key string) bool {
		has, isSet := obj.GetLabels()[key]
		wanted, isWanted := helmOp.Labels[key]
		return has != wanted || isSet != isWanted
	})
}

// ChildSelector are the labels by which the children of a HelmOp are found.
func ChildSelector(helmOp *addonsv1.HelmOp) map[string]string {
	return map[string]string{addonsv1.HelmOpNameLabel: capilabels.MustFormatValue(helmOp.Name)}
}

// TitleOf names a Cluster to people who look from a namespace.
func TitleOf(namespace string, cluster client.ObjectKey) string {
	if cluster == clusterlink.Management {
		return ManagementTitle
	}
	if cluster.Namespace == namespace {
		return cluster.Name
	}
	return cluster.String()
}

// IsWatched tells whether an object is this manager's to work on. Events of Clusters, Secrets and the like, and timers
// from before a label changed, lead to objects of other managers, too.
func IsWatched(obj client.Object, watchFilter string) bool {
	return watchFilter == "" || obj.GetLabels()[clusterv1.WatchLabel] == watchFilter
}

// KindNamespace is the kind of a Namespace.
const KindNamespace = "Namespace"

// RevisionName is the name of the HelmOpRevision with a number. It is computed, not generated, so that a stale cache
// cannot make a second one.
func RevisionName(helmOp string, number int64) string {
	suffix := "-" + strconv.FormatInt(number, 10)
	if len(helmOp)+len(suffix) > maxNameLength {
		suffix = "-" + HexDigest(helmOp)[:8] + suffix
		helmOp = strings.TrimRight(helmOp[:maxNameLength-len(suffix)], "-.")
	}
	return helmOp + suffix
}

// ContentDigest stands for all that shapes a release.
func ContentDigest(spec *addonsv1.HelmOpReleaseSpec) (string, error) {
	return DigestOf(ArtifactIdentity(&spec.Artifact), spec.ValuesDigest, spec.PostRenderDigest, spec.ReleaseOptions)
}

// ArtifactIdentity identifies what is installed of an artifact.
func ArtifactIdentity(artifact *addonsv1.ResolvedArtifact) string {
	identity := artifact.Digest
	if artifact.LayerMediaType != "" {
		identity = HexDigest(identity + " " + artifact.LayerMediaType)
	}
	if artifact.Format != "" {
		identity = HexDigest(strings.Join([]string{identity, string(artifact.Format), string(artifact.Templating),
			artifact.Path}, " "))
	}
	return identity
}

// Jitter is a number from 0 to 1 that is always the same for one object and spreads what many do at the same intervals.
func Jitter(object client.Object) float64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(object.GetUID()))
	return float64(hash.Sum32()) / math.MaxUint32
}

// KnownArtifacts are all that a status knows.
func KnownArtifacts(status *addonsv1.HelmOpStatus) []*addonsv1.ArtifactStatus {
	var known []*addonsv1.ArtifactStatus
	if status.Artifact != nil {
		known = append(known, status.Artifact.DeepCopy())
	}
	for i := range status.Artifacts {
		known = append(known, status.Artifacts[i].ArtifactStatus.DeepCopy())
	}
	return known
}

// followedLabels are handed on by a HelmOp to its releases and revisions, so that the manager that makes them also
// serves them.
var followedLabels = []string{clusterv1.WatchLabel, addonsv1.ShardLabel}

// MetadataList is a list of the metadata of objects of a kind, to read into.
func MetadataList(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

// PartialOf is the metadata of a core kind, to watch.
func PartialOf(kind string) *metav1.PartialObjectMetadata {
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return partial
}
