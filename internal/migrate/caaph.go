// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// These are the kinds of CAAPH, and the names that CAAPH writes into the metadata of its objects.
var (
	// HelmChartProxyKind is the kind of a chart for the Clusters of a selector.
	HelmChartProxyKind = schema.GroupVersionKind{Group: "addons.cluster.x-k8s.io", Version: "v1alpha1",
		Kind: "HelmChartProxy"}

	// HelmReleaseProxyKind is the kind of the release of a HelmChartProxy in a Cluster.
	HelmReleaseProxyKind = schema.GroupVersionKind{Group: "addons.cluster.x-k8s.io", Version: "v1alpha1",
		Kind: "HelmReleaseProxy"}
)

const (
	// HelmChartProxyFinalizer is the finalizer of a HelmChartProxy. CAAPH uninstalls the release of a HelmReleaseProxy if
	// it is deleted with its finalizer.
	HelmChartProxyFinalizer = "helmchartproxy.addons.cluster.x-k8s.io"

	// HelmReleaseProxyFinalizer is the finalizer of a HelmReleaseProxy.
	HelmReleaseProxyFinalizer = "helmreleaseproxy.addons.cluster.x-k8s.io"

	// HelmChartProxyLabel is the label of a HelmReleaseProxy that names its HelmChartProxy.
	HelmChartProxyLabel = "helmreleaseproxy.addons.cluster.x-k8s.io/helmchartproxy-name"

	// defaultOCIKey is the key in a Secret with credentials if the HelmChartProxy names no key.
	defaultOCIKey = "config.json"
)

// helmChartProxy has the fields of a HelmChartProxy that a migration reads.
type helmChartProxy struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ClusterSelector   metav1.LabelSelector `json:"clusterSelector"`
		ChartName         string               `json:"chartName"`
		RepoURL           string               `json:"repoURL"`
		ReleaseName       string               `json:"releaseName"`
		ReleaseNamespace  string               `json:"namespace"`
		Version           string               `json:"version"`
		ValuesTemplate    string               `json:"valuesTemplate"`
		ReconcileStrategy string               `json:"reconcileStrategy"`
		Options           caaphOptions         `json:"options"`
		Credentials       *struct {
			Secret corev1.SecretReference `json:"secret"`
			Key    string                 `json:"key"`
		} `json:"credentials"`
		TLSConfig *struct {
			CASecretRef           *corev1.SecretReference `json:"caSecret"`
			InsecureSkipTLSVerify bool                    `json:"insecureSkipTLSVerify"`
		} `json:"tlsConfig"`
	} `json:"spec"`
}

// caaphOptions are spec.options of a HelmChartProxy.
type caaphOptions struct {
	DisableHooks             bool             `json:"disableHooks"`
	Wait                     bool             `json:"wait"`
	Timeout                  *metav1.Duration `json:"timeout"`
	SkipCRDs                 bool             `json:"skipCRDs"`
	DisableOpenAPIValidation bool             `json:"disableOpenAPIValidation"`
	Atomic                   bool             `json:"atomic"`
	Install                  struct {
		// CreateNamespace is true unless it is set to false.
		CreateNamespace *bool `json:"createNamespace"`
	} `json:"install"`
	Upgrade struct {
		Force                bool   `json:"force"`
		ResetValues          bool   `json:"resetValues"`
		ReuseValues          bool   `json:"reuseValues"`
		ResetThenReuseValues bool   `json:"resetThenReuseValues"`
		MaxHistory           *int32 `json:"maxHistory"`
		CleanupOnFail        bool   `json:"cleanupOnFail"`
	} `json:"upgrade"`
	Uninstall struct {
		KeepHistory bool   `json:"keepHistory"`
		Description string `json:"description"`
	} `json:"uninstall"`
}

// helmReleaseProxy has the fields of a HelmReleaseProxy that a migration reads.
type helmReleaseProxy struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ClusterRef       corev1.ObjectReference `json:"clusterRef"`
		ReleaseName      string                 `json:"releaseName"`
		ReleaseNamespace string                 `json:"namespace"`
	} `json:"spec"`
	Status struct {
		Status   string `json:"status"`
		Revision int64  `json:"revision"`
	} `json:"status"`
}

// FromCAAPH converts HelmChartProxies, with the HelmReleaseProxies that belong to them.
func FromCAAPH(charts, releases []*unstructured.Unstructured) *Plan {
	plan := &Plan{}
	for _, chart := range charts {
		plan.Items = append(plan.Items, fromHelmChartProxy(chart, releases))
	}
	plan.sort()
	return plan
}

func fromHelmChartProxy(object *unstructured.Unstructured, releases []*unstructured.Unstructured) Item {
	item := Item{From: []Object{ObjectOf(object)}}
	proxy := &helmChartProxy{}
	if err := decode(object, proxy); err != nil {
		item.block("spec", "the object cannot be read: %v", err)
		return item
	}
	item.HelmOp = newHelmOp(proxy.Namespace, proxy.Name, item.From[0].Origin())
	if filter, ok := proxy.Labels[clusterv1.WatchLabel]; ok {
		// CAAPH has the flag --watch-filter, too.
		item.setLabel(clusterv1.WatchLabel, filter)
	}
	spec := &item.HelmOp.Spec
	spec.ClusterSelector = &proxy.Spec.ClusterSelector
	spec.Release.Namespace = nonEmpty(proxy.Spec.ReleaseNamespace, apiutil.DefaultReleaseNamespace)
	spec.ValuesTemplate = proxy.Spec.ValuesTemplate
	spec.Source.Ref = refOf(proxy.Spec.Version)
	item.setChart(proxy.Spec.RepoURL, proxy.Spec.ChartName)
	newest := item.addProxies(proxy, releases)
	if proxy.Spec.ReleaseName != "" {
		spec.Release.Name = escape(proxy.Spec.ReleaseName)
	} else {
		item.readName(proxy.Spec.ChartName, newest)
	}
	item.setCredentials(proxy)
	item.setCAAPHOptions(&proxy.Spec.Options)
	item.checkTemplates("spec.valuesTemplate")
	item.blockManaged(&proxy.ObjectMeta)
	if isPausedByUser(&proxy.ObjectMeta) {
		item.block("metadata", "the annotation %s pauses the object; remove the annotation, so that its releases are up to "+
			"date when HelmOp adopts them", clusterv1.PausedAnnotation)
	}
	if proxy.Spec.ReconcileStrategy == string(addonsv1.ReconcileStrategyInstallOnce) {
		spec.ReconcileStrategy, spec.DeletionPolicy = addonsv1.ReconcileStrategyInstallOnce, addonsv1.DeletionPolicyOrphan
		item.gap("spec.reconcileStrategy", "a release that was changed since its installation is not adopted; then "+
			"delete the object instead: CAAPH does not uninstall its releases")
	}
	if proxy.DeletionTimestamp != nil {
		item.block("metadata", "the object is being deleted, and CAAPH uninstalls its releases")
	}
	return item
}

// isPausedByUser reports whether an object is paused, but not by a migration that has begun.
func isPausedByUser(meta *metav1.ObjectMeta) bool {
	_, isPaused := meta.Annotations[clusterv1.PausedAnnotation]
	return isPaused && meta.Annotations[addonsv1.MigrationAnnotation] == ""
}

// addProxies adds the releases of a HelmChartProxy, and returns when the newest HelmReleaseProxy was created.
func (i *Item) addProxies(chart *helmChartProxy, releases []*unstructured.Unstructured) (newest metav1.Time) {
	for _, object := range releases {
		if object.GetNamespace() != chart.Namespace || object.GetLabels()[HelmChartProxyLabel] != chart.Name {
			continue
		}
		proxy := &helmReleaseProxy{}
		if err := decode(object, proxy); err != nil {
			i.block("HelmReleaseProxy "+object.GetName(), "the object cannot be read: %v", err)
			continue
		}
		if newest.Before(&proxy.CreationTimestamp) {
			newest = proxy.CreationTimestamp
		}
		ref := proxy.Spec.ClusterRef
		where := fmt.Sprintf("HelmReleaseProxy %s of Cluster %s", proxy.Name, ref.Name)
		switch {
		case proxy.DeletionTimestamp != nil:
			i.block(where, "it is being deleted, and CAAPH uninstalls its release")
		case proxy.Spec.ReleaseName == "":
			i.block(where, "it has no release yet; wait until CAAPH has installed the release")
		case isPausedByUser(&proxy.ObjectMeta):
			i.block(where, "the annotation %s pauses the object; remove the annotation, so that its release is up to date "+
				"when HelmOp adopts it", clusterv1.PausedAnnotation)
		case proxy.Status.Status != "deployed":
			i.gap(where, "its release is %s: HelmOp cannot adopt it without a new Helm revision",
				nonEmpty(proxy.Status.Status, "unknown"))
		}
		i.Releases = append(i.Releases, Release{
			Cluster: types.NamespacedName{Namespace: nonEmpty(ref.Namespace, chart.Namespace), Name: ref.Name},
			Owner:   ObjectOf(object), Name: proxy.Spec.ReleaseName,
			Namespace: nonEmpty(proxy.Spec.ReleaseNamespace, apiutil.DefaultReleaseNamespace), Revision: proxy.Status.Revision,
		})
	}
	return newest
}

// setCredentials converts the access to the registry. A HelmOp reads Secrets only from its own namespace.
func (i *Item) setCredentials(proxy *helmChartProxy) {
	source := &i.HelmOp.Spec.Source
	if credentials := proxy.Spec.Credentials; credentials != nil && credentials.Secret.Name != "" {
		key := nonEmpty(credentials.Key, defaultOCIKey)
		namespace := nonEmpty(credentials.Secret.Namespace, proxy.Namespace)
		source.SecretRef = &addonsv1.SecretReference{Name: credentials.Secret.Name}
		if key != corev1.DockerConfigJsonKey || namespace != proxy.Namespace {
			name := credentials.Secret.Name + "-dockerconfigjson"
			source.SecretRef.Name = name
			i.Gaps = append(i.Gaps, Gap{Field: "spec.credentials", Blocks: true, Secret: name, Text: fmt.Sprintf(
				"HelmOp reads a Secret of type kubernetes.io/dockerconfigjson in its namespace; create the Secret %s/%s "+
					"with the key %q of the Secret %s/%s as %s", proxy.Namespace, name, key, namespace, credentials.Secret.Name,
				corev1.DockerConfigJsonKey)})
		}
	}
	tls := proxy.Spec.TLSConfig
	if tls == nil {
		return
	}
	if tls.InsecureSkipTLSVerify {
		i.block("spec.tlsConfig.insecureSkipTLSVerify", "HelmOp verifies the certificate of the registry; create a "+
			"Secret with the certificate of its authority in ca.crt, and set spec.tlsConfig.caSecret")
	}
	if tls.CASecretRef != nil && tls.CASecretRef.Name != "" {
		name := tls.CASecretRef.Name
		source.CertSecretRef = &addonsv1.SecretReference{Name: name}
		if namespace := nonEmpty(tls.CASecretRef.Namespace, proxy.Namespace); namespace != proxy.Namespace {
			i.Gaps = append(i.Gaps, Gap{Field: "spec.tlsConfig.caSecret", Blocks: true, Secret: name, Text: fmt.Sprintf(
				"HelmOp reads Secrets of its own namespace; copy ca.crt of the Secret %s/%s to the Secret %s/%s", namespace, name,
				proxy.Namespace, name)})
		}
	}
}

// setCAAPHOptions converts the options of Helm. HelmOp watches the health of a release even without the option wait.
// CAAPH itself ignores dependencyUpdate, options.options (sub-notes), upgrade.recreate and install.includeCRDs. Its
// client cache does not affect a release.
func (i *Item) setCAAPHOptions(o *caaphOptions) {
	helmOp := i.HelmOp
	if o.DisableHooks {
		install(helmOp).DisableHooks = ptr.To(true)
		upgrade(helmOp).DisableHooks = ptr.To(true)
		uninstall(helmOp).DisableHooks = ptr.To(true)
	}
	if o.Timeout != nil {
		install(helmOp).Timeout, upgrade(helmOp).Timeout = o.Timeout, o.Timeout
		uninstall(helmOp).Timeout = o.Timeout
	}
	if (o.Wait || o.Atomic) && o.Timeout != nil {
		helmOp.Spec.Health = &addonsv1.HealthOptions{Timeout: o.Timeout}
	}
	if o.SkipCRDs {
		install(helmOp).CRDs = addonsv1.CRDPolicySkip
	}
	if o.DisableOpenAPIValidation {
		install(helmOp).DisableOpenAPIValidation = ptr.To(true)
		upgrade(helmOp).DisableOpenAPIValidation = ptr.To(true)
	}
	if o.Atomic {
		install(helmOp).Remediation = &addonsv1.InstallRemediation{Strategy: addonsv1.InstallRemediationUninstall}
		i.noteInstallRemediation("spec.options.atomic")
		upgrade(helmOp).Remediation = &addonsv1.UpgradeRemediation{Strategy: addonsv1.UpgradeRemediationRollback}
		if o.Timeout != nil {
			helmOp.Spec.Rollback = &addonsv1.RollbackOptions{Timeout: o.Timeout}
		}
	}
	if o.Install.CreateNamespace != nil && !*o.Install.CreateNamespace {
		install(helmOp).CreateNamespace = ptr.To(false)
	}
	i.setCAAPHUpgrade(o)
	if o.Uninstall.KeepHistory {
		uninstall(helmOp).KeepHistory = ptr.To(true)
	}
	if o.Uninstall.Description != "" {
		i.gap("spec.options.uninstall.description", "HelmOp writes its own description of an uninstallation")
	}
}

func (i *Item) setCAAPHUpgrade(o *caaphOptions) {
	switch { // If several options are set, Helm uses the first one.
	case o.Upgrade.ResetValues:
	case o.Upgrade.ReuseValues:
		upgrade(i.HelmOp).ValuesPolicy = addonsv1.ValuesPolicyReuse
	case o.Upgrade.ResetThenReuseValues:
		upgrade(i.HelmOp).ValuesPolicy = addonsv1.ValuesPolicyResetThenReuse
	}
	if o.Upgrade.Force {
		upgrade(i.HelmOp).Force = ptr.To(true)
	}
	if o.Upgrade.CleanupOnFail {
		upgrade(i.HelmOp).CleanupOnFail = ptr.To(true)
	}
	if o.Upgrade.MaxHistory != nil && *o.Upgrade.MaxHistory != defaultMaxHistory {
		upgrade(i.HelmOp).MaxHistory = o.Upgrade.MaxHistory
	}
}

// defaultMaxHistory is the default of CAAPH and of HelmOp.
const defaultMaxHistory = 10

// Clusters returns the Clusters of the releases, without duplicates.
func (i *Item) Clusters() []types.NamespacedName {
	var clusters []types.NamespacedName
	for _, release := range i.Releases {
		if !slices.Contains(clusters, release.Cluster) {
			clusters = append(clusters, release.Cluster)
		}
	}
	return clusters
}
