// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// anyVersion is the range of all versions that are not pre-releases.
const anyVersion = "*"

// refOf returns the reference for a version in the syntax of Helm: an exact version, a range, or nothing for the latest
// version.
func refOf(version string) addonsv1.ArtifactReference {
	version = strings.TrimSpace(version)
	if version == "" {
		return addonsv1.ArtifactReference{Semver: anyVersion}
	}
	if _, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v")); err == nil {
		return addonsv1.ArtifactReference{Tag: version}
	}
	return addonsv1.ArtifactReference{Semver: version}
}

// isOCI is true for the address of an OCI registry.
func isOCI(url string) bool { return strings.HasPrefix(url, "oci://") }

// joinOCI returns the repository of a chart below an address.
func joinOCI(url, chart string) string {
	return strings.TrimSuffix(url, "/") + "/" + strings.Trim(chart, "/")
}

// setChart sets the address of a chart: a repository of an OCI registry, or a chart of a chart repository.
func (i *Item) setChart(url, chart string) {
	source := &i.HelmOp.Spec.Source
	if isOCI(url) {
		source.URL = joinOCI(url, chart)
		return
	}
	source.URL, source.Chart = url, chart
	if strings.HasPrefix(url, "http://") {
		source.Insecure = true
	}
}

// managers are the labels and annotations that GitOps tools set on the objects that they manage.
var managers = []struct{ key, tool string }{
	{"kustomize.toolkit.fluxcd.io/name", "the Flux Kustomization"},
	{"helm.toolkit.fluxcd.io/name", "the Flux HelmRelease"},
	{"resourceset.fluxcd.controlplane.io/name", "the Flux ResourceSet"},
	{"argocd.argoproj.io/tracking-id", "the Argo CD application"},
	{"objectset.rio.cattle.io/id", "the Fleet bundle"},
	{inventory.HelmReleaseName, "the Helm release"},
}

// instanceLabel is the label that Argo CD may set on its objects. Charts and users set this label too.
const instanceLabel = "app.kubernetes.io/instance"

// managersOf returns the GitOps tools that manage an object, by its labels and annotations.
func managersOf(meta *metav1.ObjectMeta) []string {
	var all []string
	for _, m := range managers {
		if name := nonEmpty(meta.Labels[m.key], meta.Annotations[m.key]); name != "" {
			all = append(all, fmt.Sprintf("%s %q", m.tool, name))
		}
	}
	return all
}

// blockManaged blocks the migration of an object that a GitOps tool or a controller would restore.
func (i *Item) blockManaged(meta *metav1.ObjectMeta) {
	for _, owner := range meta.OwnerReferences {
		i.block("metadata.ownerReferences", "a controller may create the object again for its owner %s %q, and both tools "+
			"would change the releases; stop this controller, remove the owner from the object, and repeat the command",
			owner.Kind, owner.Name)
	}
	for _, manager := range managersOf(meta) {
		i.block("metadata", "%s manages the object and would restore it; let this tool release the object without "+
			"deleting it, and repeat the command", manager)
	}
	if instance := meta.Labels[instanceLabel]; instance != "" {
		i.gap("metadata", "if the Argo CD application %q manages the object, it would restore the object; let it release "+
			"the object first", instance)
	}
}

// checkTemplates blocks the migration if the item has templates that HelmOp cannot parse.
func (i *Item) checkTemplates(field string) {
	spec := &i.HelmOp.Spec
	source := templating.Spec{
		ReleaseName: nonEmpty(spec.Release.Name, i.HelmOp.Name), ReleaseNamespace: nonEmpty(spec.Release.Namespace,
			apiutil.DefaultReleaseNamespace),
		Values: rawOf(spec.Values), ValuesTemplate: spec.ValuesTemplate,
		Delimiters: templating.Delimiters(spec.TemplateDelimiters),
	}
	for _, override := range spec.Overrides {
		source.Overrides = append(source.Overrides, templating.Override{Name: override.Name, Values: rawOf(override.Values),
			ValuesTemplate: override.ValuesTemplate})
	}
	_, err := templating.Compile(source)
	var failed *templating.Error
	if errors.As(err, &failed) && !strings.HasPrefix(failed.Field, "spec.release") {
		i.block(field, "HelmOp cannot read the template, %v; see docs/templates.md, and correct the template", err)
	} else if err != nil {
		i.block(field, "%v", err)
	}
}

// rawOf returns values as JSON; nil if there are none.
func rawOf(values *apiextensionsv1.JSON) []byte {
	if values == nil {
		return nil
	}
	return values.Raw
}

// noteInstallRemediation adds the gap of a tool that uninstalls failed installations. HelmOp does not do this while it
// takes ownership of objects, which an adoption needs.
func (i *Item) noteInstallRemediation(field string) {
	i.gap(field, "with spec.install.takeOwnership, which the migration needs, HelmOp does not uninstall a failed "+
		"installation, and only retries it; to change this for new Clusters, remove spec.install.takeOwnership after the "+
		"migration")
}

func nonEmpty(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// escape returns a text that a template of HelmOp prints unchanged.
func escape(text string) string { return strings.ReplaceAll(text, "{{", `{{ "{{" }}`) }

// literal returns values for a HelmOp in which no string is a template.
func literal(values map[string]any) (*apiextensionsv1.JSON, error) {
	if len(values) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(escapeAll(values))
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	return &apiextensionsv1.JSON{Raw: raw}, nil
}

// escapeAll returns a value in which no string is a template.
func escapeAll(value any) any {
	return mapStrings(value, false, func(text string, _ bool) string { return escape(text) })
}

// mapStrings returns a value in which convert has converted each string. isInMap is true for a value of a map.
func mapStrings(value any, isInMap bool, convert func(text string, isInMap bool) string) any {
	switch value := value.(type) {
	case string:
		return convert(value, isInMap)
	case []any:
		converted := make([]any, len(value))
		for i := range value {
			converted[i] = mapStrings(value[i], false, convert)
		}
		return converted
	case map[string]any:
		converted := make(map[string]any, len(value))
		for key, element := range value {
			converted[key] = mapStrings(element, true, convert)
		}
		return converted
	default:
		return value
	}
}

// markKey returns the name of a label or an annotation that a HelmOp uses on Clusters. A long name is shortened, and
// ends with a digest.
func markKey(prefix, helmOp string) string {
	if len(helmOp) > validation.LabelValueMaxLength {
		digest := apiutil.HexDigest(helmOp)[:10]
		helmOp = strings.TrimRight(helmOp[:validation.LabelValueMaxLength-len(digest)-1], "-.") + "-" + digest
	}
	return prefix + "/" + helmOp
}

// readName makes the HelmOp read its release name from an annotation of each Cluster. A Cluster without the annotation
// that was created after newest gets the name in the parameter otherwise. newest is the creation time of the newest
// HelmReleaseProxy. For an older Cluster without the annotation, rendering fails: the manager may see the HelmOp before
// it sees the annotation, and would install the chart a second time with another name.
func (i *Item) readName(otherwise string, newest metav1.Time) {
	key := markKey(addonsv1.ReleaseNameAnnotationPrefix, i.HelmOp.Name)
	i.HelmOp.Spec.Release.Name = fmt.Sprintf(`{{ if hasKey .ClusterAnnotations %[1]q }}`+
		`{{ get .ClusterAnnotations %[1]q }}`+
		`{{ else if gt .Cluster.metadata.creationTimestamp %[2]q }}{{ %[3]q }}`+
		`{{ else }}{{ fail "the annotation %[1]s is missing: set it on the Cluster to the name of the release" }}{{ end }}`,
		key, newest.UTC().Format(time.RFC3339), otherwise)
	for _, release := range i.Releases {
		i.Marks = append(i.Marks, Mark{Cluster: release.Cluster, Key: key, Value: release.Name})
	}
}

// selectMarked selects the Clusters of the releases by a label. clusters are all Clusters.
func (i *Item) selectMarked(clusters map[types.NamespacedName]*metav1.PartialObjectMetadata) {
	key := markKey(addonsv1.MigratedClusterLabelPrefix, i.HelmOp.Name)
	i.HelmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: "true"}}
	marked := map[types.NamespacedName]bool{}
	for _, release := range i.Releases {
		if !marked[release.Cluster] {
			marked[release.Cluster] = true
			i.Marks = append(i.Marks, Mark{Cluster: release.Cluster, IsLabel: true, Key: key, Value: "true"})
		}
	}
	i.noteManagedClusters(key, clusters)
}

// SelectsLabel reports whether a HelmOp, or one of its overrides, selects Clusters by a label. The values do not
// matter.
func SelectsLabel(helmOp *addonsv1.HelmOp, label string) bool {
	selectors := []*metav1.LabelSelector{helmOp.Spec.ClusterSelector}
	for i := range helmOp.Spec.Overrides {
		selectors = append(selectors, &helmOp.Spec.Overrides[i].ClusterSelector)
	}
	return slices.ContainsFunc(selectors, func(s *metav1.LabelSelector) bool {
		if s == nil {
			return false
		}
		_, found := s.MatchLabels[label]
		return found || slices.ContainsFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return r.Key == label
		})
	})
}

// noteManagedClusters adds a gap if GitOps tools manage Clusters of an item: their repositories do not have the label
// that the HelmOp selects.
func (i *Item) noteManagedClusters(label string, clusters map[types.NamespacedName]*metav1.PartialObjectMetadata) {
	var names []string
	var tool string
	for _, key := range i.Clusters() {
		cluster := clusters[key]
		if cluster == nil {
			continue
		}
		if all := managersOf(&cluster.ObjectMeta); len(all) > 0 {
			names, tool = append(names, key.Name), nonEmpty(tool, all[0])
		}
	}
	if len(names) > 0 {
		i.gap("Clusters", "%s manages %s %s; add the label %s there, too, because HelmOp uninstalls the release of a "+
			"Cluster that loses the label", tool, plural.Word(len(names), "Cluster", "Clusters"),
			plural.Few(names, maxNamedClusters), label)
	}
}

// maxNamedClusters is the largest number of Clusters that a gap names.
const maxNamedClusters = 3

// isSelected reports whether a HelmOp selects a Cluster of an item. Then the HelmOp may own a release of the item, and
// the item keeps the name of the HelmOp, so that the command refuses the item: a HelmOp of another name would be a
// second owner of the release.
func (i *Item) isSelected(helmOp *addonsv1.HelmOp,
	clusters map[types.NamespacedName]*metav1.PartialObjectMetadata,
) bool {
	selector, err := metav1.LabelSelectorAsSelector(helmOp.Spec.ClusterSelector)
	return err != nil || slices.ContainsFunc(i.Clusters(), func(key types.NamespacedName) bool {
		cluster := clusters[key]
		return cluster != nil && selector.Matches(labels.Set(cluster.Labels))
	})
}

// byKey returns objects by their namespaces and names.
func byKey[T client.Object](objects []T) map[types.NamespacedName]T {
	all := map[types.NamespacedName]T{}
	for _, object := range objects {
		all[client.ObjectKeyFromObject(object)] = object
	}
	return all
}
