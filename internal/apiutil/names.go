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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// MaxNamedObjects is the number of objects that a message names at most.
	MaxNamedObjects = 3

	// KindSecret is a kind that HelmOps refer to.
	KindSecret = "Secret"

	// KindConfigMap is a kind that HelmOps refer to.
	KindConfigMap = "ConfigMap"

	// KindServiceAccount is a kind that HelmOps refer to.
	KindServiceAccount = "ServiceAccount"

	// MetadataPage is the number of objects per page when the manager lists the metadata of objects of other shards.
	MetadataPage = 500

	// HelmOpKind is the kind of a HelmOp.
	HelmOpKind = "HelmOp"
)

// maxNameLength is the length, in bytes, that Kubernetes permits for the name of most objects.
const maxNameLength = 253

// ChildName returns the name of the HelmOpRelease of a HelmOp and a Cluster. For a Cluster of another namespace, the
// argument is namespace/name. The name is computed, not generated, so that a crash between two steps cannot create a
// second HelmOpRelease. The hash distinguishes pairs whose joined names are equal, such as "a-b" and "c", and "a" and
// "b-c".
func ChildName(helmOp, cluster string) string {
	sum := sha256.Sum256([]byte(helmOp + "/" + cluster))
	suffix := "-" + hex.EncodeToString(sum[:4])
	name := helmOp + "-" + strings.NewReplacer("/", "-", " ", "-").Replace(cluster)
	if len(name)+len(suffix) > maxNameLength {
		name = strings.TrimRight(name[:maxNameLength-len(suffix)], "-.")
	}
	return name + suffix
}

// DigestOf returns the hexadecimal SHA-256 of the JSON of its arguments. Equal arguments have equal digests. The error
// means that an argument has no JSON form.
func DigestOf(values ...any) (string, error) {
	sum, err := SumOf(values...)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum[:]), nil
}

// SumOf does the same as DigestOf, and returns the bytes of the digest.
func SumOf(values ...any) (sum [sha256.Size]byte, err error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return sum, fmt.Errorf("computing a digest: %w", err)
	}
	return sha256.Sum256(raw), nil
}

// HexDigest returns the hexadecimal SHA-256 of a text.
func HexDigest[T []byte | string](text T) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Truncate shortens a message to at most limit bytes. It does not cut a character.
func Truncate(message string, limit int) string {
	return truncate.Text(message, limit)
}

// HelmOpOf returns the name of the HelmOp that controls a release; empty if there is none.
func HelmOpOf(release *addonsv1.HelmOpRelease) string {
	if owner := metav1.GetControllerOf(release); owner != nil && owner.Kind == HelmOpKind {
		return owner.Name
	}
	return ""
}

// InheritLabels copies to labels the shard and watch labels of a HelmOp, or deletes them if the HelmOp has none.
func InheritLabels(labels map[string]string, helmOp *addonsv1.HelmOp) {
	for _, key := range inheritedLabels {
		delete(labels, key)
		if value, ok := helmOp.Labels[key]; ok {
			labels[key] = value
		}
	}
}

// HasInheritedLabels reports whether an object has the same shard and watch labels as its HelmOp.
func HasInheritedLabels(obj client.Object, helmOp *addonsv1.HelmOp) bool {
	return !slices.ContainsFunc(inheritedLabels, func(key string) bool {
		has, isSet := obj.GetLabels()[key]
		desired, isDesired := helmOp.Labels[key]
		return has != desired || isSet != isDesired
	})
}

// ChildSelector returns the labels that select the HelmOpReleases and revisions of a HelmOp.
func ChildSelector(helmOp *addonsv1.HelmOp) map[string]string {
	return map[string]string{addonsv1.HelmOpNameLabel: capilabels.MustFormatValue(helmOp.Name)}
}

// TitleOf returns the name of a Cluster for messages about an object in a namespace. It has the form namespace/name if
// the Cluster is in another namespace, and is ManagementTitle for the management cluster.
func TitleOf(namespace string, cluster client.ObjectKey) string {
	if cluster == clusterlink.Management {
		return ManagementTitle
	}
	if cluster.Namespace == namespace {
		return cluster.Name
	}
	return cluster.String()
}

// IsWatched reports whether a manager with a watch filter serves an object. Reconcilers must check this, because the
// queue can contain objects of other managers: an event of a Cluster or a Secret adds objects without regard to the
// filter, and a timer can be older than the last change of the object's label.
func IsWatched(obj client.Object, watchFilter string) bool {
	return watchFilter == "" || obj.GetLabels()[clusterv1.WatchLabel] == watchFilter
}

// KindNamespace is the kind of a Namespace.
const KindNamespace = "Namespace"

// RevisionName returns the name of the HelmOpRevision with a number. The name is computed, not generated, so that a
// stale cache cannot cause a second HelmOpRevision.
func RevisionName(helmOp string, number int64) string {
	suffix := "-" + strconv.FormatInt(number, 10)
	if len(helmOp)+len(suffix) > maxNameLength {
		suffix = "-" + HexDigest(helmOp)[:8] + suffix
		helmOp = strings.TrimRight(helmOp[:maxNameLength-len(suffix)], "-.")
	}
	return helmOp + suffix
}

// ContentDigest returns a digest of the content of a release: artifact, values, post-rendering and options.
func ContentDigest(spec *addonsv1.HelmOpReleaseSpec) (string, error) {
	return DigestOf(ArtifactIdentity(&spec.Artifact), spec.ValuesDigest, spec.PostRenderDigest, spec.ReleaseOptions)
}

// ArtifactIdentity returns the digest of an artifact. If only a part of the artifact is installed, or a format is set,
// the result is a digest that includes the layer, the format, the templating and the path.
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

// Jitter returns a number from 0 to 1 that is constant for an object. It spreads actions that many objects repeat at
// the same interval.
func Jitter(object client.Object) float64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(object.GetUID()))
	return float64(hash.Sum32()) / math.MaxUint32
}

// KnownArtifacts returns copies of all artifacts in the status of a HelmOp.
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

// ReferenceText describes a reference to an artifact, for messages.
func ReferenceText(ref *addonsv1.ArtifactReference) string {
	var parts []string
	for _, part := range []struct{ name, value string }{
		{"tag", ref.Tag}, {"digest", ref.Digest}, {"semver", ref.Semver}, {"tagFilter", ref.TagFilter},
	} {
		if part.value != "" {
			parts = append(parts, part.name+" "+part.value)
		}
	}
	return strings.Join(parts, ", ")
}

// inheritedLabels are the labels that the releases and revisions of a HelmOp inherit, so that the manager that creates
// them also serves them.
var inheritedLabels = []string{clusterv1.WatchLabel, addonsv1.ShardLabel}

// MetadataList returns an empty list of metadata of objects of a kind, to read into.
func MetadataList(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

// PartialOf returns an empty metadata object of a core kind, to watch or to read into.
func PartialOf(kind string) *metav1.PartialObjectMetadata {
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return partial
}

// ListObjects joins the first MaxNamedObjects items, and adds the number of the others.
func ListObjects[T fmt.Stringer](all []T, separator string) string {
	texts := make([]string, 0, MaxNamedObjects)
	for _, item := range all[:min(len(all), MaxNamedObjects)] {
		texts = append(texts, item.String())
	}
	list := strings.Join(texts, separator)
	if more := len(all) - MaxNamedObjects; more > 0 {
		list += separator + "and " + plural.Count(more, "more object", "more objects")
	}
	return list
}
