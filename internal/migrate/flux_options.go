// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// fluxTimeout is the default timeout of Flux. It is also the default of HelmOp.
var fluxTimeout = metav1.Duration{Duration: 5 * time.Minute}

const (
	// fluxMaxHistory is how many Helm revisions Flux keeps by default.
	fluxMaxHistory = 5

	// helmContentType is the media type of a Helm chart, which HelmOp reads without a layerSelector.
	helmContentType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// setFluxChart converts the chart of a HelmRelease.
func (i *Item) setFluxChart(r *fluxReader, release *helmRelease) {
	ref, field, chart := release.Spec.ChartRef, "spec.chartRef", release.Spec.Chart
	if chart != nil {
		ref, field = &chart.Spec.SourceRef, "spec.chart.spec.sourceRef"
	}
	if ref == nil {
		i.block(field, "the object names no chart")
		return
	}
	key := crossName{ref.Kind, ref.Name, nonEmpty(ref.Namespace, release.Namespace)}
	source := r.sources[key]
	if source == nil {
		i.block(field, "%s %s/%s cannot be read, or is not a source of Helm charts that HelmOp can use", key.Kind,
			key.Namespace, key.Name)
		return
	}
	verify := source.Spec.Verify
	if chart != nil {
		verify = chart.Spec.Verify
	}
	hasSecrets := source.Spec.SecretRef != nil || source.Spec.CertSecretRef != nil || source.Spec.ProxySecretRef != nil ||
		verify != nil && (verify.SecretRef != nil || verify.TrustedRootSecretRef != nil)
	if key.Namespace != release.Namespace && (hasSecrets || source.Spec.ServiceAccountName != "") {
		i.block(field, "HelmOp reads Secrets and ServiceAccounts of its own namespace; copy those of %s %s/%s to namespace "+
			"%q, and the source too", key.Kind, key.Namespace, key.Name, release.Namespace)
	}
	spec := &i.HelmOp.Spec.Source
	spec.Interval, spec.Provider = source.Spec.Interval, source.Spec.Provider
	spec.SecretRef, spec.CertSecretRef = source.Spec.SecretRef, source.Spec.CertSecretRef
	spec.ProxySecretRef, spec.Insecure = source.Spec.ProxySecretRef, source.Spec.Insecure
	spec.ImagePullServiceAccountName = source.Spec.ServiceAccountName
	if chart != nil {
		spec.Ref = refOf(chart.Spec.Version)
		i.setChart(source.Spec.URL, chart.Spec.Chart)
		if len(chart.Spec.ValuesFiles) > 0 {
			i.block("spec.chart.spec.valuesFiles", "HelmOp uses values.yaml of the chart; add the values of %s to spec.values",
				strings.Join(chart.Spec.ValuesFiles, ", "))
		}
		if source.Spec.SecretRef != nil && isOCI(source.Spec.URL) {
			i.gap(field, "the Secret %q must be of type kubernetes.io/dockerconfigjson for an OCI registry",
				source.Spec.SecretRef.Name)
		}
		i.setFluxVerify("spec.chart.spec.verify", verify, "set secretRef, or use an OCIRepository with matchOIDCIdentity")
		return
	}
	spec.URL = source.Spec.URL
	i.setOCIRepository(source)
	i.setFluxVerify("verify", verify, "add matchOIDCIdentity to "+source.Name)
}

// setOCIRepository converts the reference of an OCIRepository.
func (i *Item) setOCIRepository(source *fluxSource) {
	spec := &i.HelmOp.Spec.Source
	switch ref := source.Spec.Ref; {
	case ref == nil:
		spec.Ref = addonsv1.ArtifactReference{Tag: "latest"}
	case ref.Digest != "":
		spec.Ref = addonsv1.ArtifactReference{Digest: ref.Digest}
	case ref.Semver != "":
		spec.Ref = addonsv1.ArtifactReference{Semver: ref.Semver, TagFilter: ref.SemverFilter}
	default:
		spec.Ref = addonsv1.ArtifactReference{Tag: nonEmpty(ref.Tag, "latest")}
	}
	if layer := source.Spec.LayerSelector; layer != nil && layer.MediaType != "" && layer.MediaType != helmContentType {
		spec.LayerSelector = &addonsv1.LayerSelector{MediaType: layer.MediaType}
	}
}

// setFluxVerify converts the required signatures. advice says how to require identities of signers.
func (i *Item) setFluxVerify(field string, verify *fluxVerify, advice string) {
	if verify == nil {
		return
	}
	spec := &i.HelmOp.Spec.Source
	spec.Verify = &addonsv1.Verification{Provider: verify.Provider, SecretRef: verify.SecretRef,
		TrustedRootSecretRef: verify.TrustedRootSecretRef}
	for _, identity := range verify.MatchOIDCIdentity {
		// Expressions of Flux match a part of the text. Expressions of HelmOp match the whole text.
		spec.Verify.Identities = append(spec.Verify.Identities, addonsv1.SignerIdentity{
			IssuerRegExp: ".*(?:" + identity.Issuer + ").*", SubjectRegExp: ".*(?:" + identity.Subject + ").*",
		})
	}
	if verify.Provider != addonsv1.VerificationProviderNotation && verify.SecretRef == nil &&
		len(verify.MatchOIDCIdentity) == 0 {
		i.block(field, "it accepts every signer, and HelmOp requires identities; %s", advice)
	}
}

// setFluxValues converts the values. In Flux, a value with a targetPath takes precedence over all earlier values,
// including the values in the object. So such values go to an override for all Clusters. If the name of a ConfigMap or
// Secret contains the name of the Cluster, it becomes a template, unless other Clusters use the same object.
func (i *Item) setFluxValues(r *fluxReader, release *helmRelease, cluster types.NamespacedName) {
	spec := &i.HelmOp.Spec
	values, err := literal(release.Spec.Values)
	if err != nil {
		i.block("spec.values", "%v", err)
	}
	spec.Values = values
	var override *addonsv1.Override
	for _, from := range release.Spec.ValuesFrom {
		name := qualified(from.Name, cluster.Name)
		if r.shared[crossName{from.Kind, from.Name, release.Namespace}] {
			name = escape(from.Name)
		}
		reference := addonsv1.ValuesReference{Kind: from.Kind, Name: name, Key: from.ValuesKey,
			TargetPath: from.TargetPath, Optional: from.Optional}
		if from.TargetPath != "" && !from.Literal {
			i.gap("spec.valuesFrom", "the value at %q is text, also if it looks like a number or a boolean", from.TargetPath)
		}
		if from.TargetPath != "" && override == nil {
			override = &addonsv1.Override{Name: "target-paths"}
		}
		if override != nil {
			override.ValuesFrom = append(override.ValuesFrom, reference)
			continue
		}
		spec.ValuesFrom = append(spec.ValuesFrom, reference)
	}
	if override != nil {
		spec.Overrides = append(spec.Overrides, *override)
	}
}

// setFluxOptions converts the options of Helm.
func (i *Item) setFluxOptions(release *helmRelease) {
	spec, from := &i.HelmOp.Spec, &release.Spec
	i.setFluxInstall(release)
	i.setFluxUpgrade(release)
	if rollback := from.Rollback; rollback != (fluxAction{}) || from.Timeout != nil {
		spec.Rollback = &addonsv1.RollbackOptions{Timeout: or(rollback.Timeout, from.Timeout),
			DisableHooks: set(rollback.DisableHooks), Force: set(rollback.Force), CleanupOnFail: set(rollback.CleanupOnFail)}
	}
	if remove := from.Uninstall; remove != (fluxAction{}) || from.Timeout != nil {
		spec.Uninstall = &addonsv1.UninstallOptions{Timeout: or(remove.Timeout, from.Timeout),
			DisableHooks: set(remove.DisableHooks), KeepHistory: set(remove.KeepHistory)}
		if remove.DeletionPropagation != "" {
			spec.Uninstall.DeletionPropagation = addonsv1.DeletionPropagation(
				strings.ToUpper(remove.DeletionPropagation[:1]) + remove.DeletionPropagation[1:])
		}
	}
	if from.Test.Enable {
		spec.Test = &addonsv1.TestOptions{Mode: addonsv1.TestModeEnabled, Timeout: or(from.Test.Timeout, from.Timeout),
			IgnoreFailures: set(from.Test.IgnoreFailures), Filters: from.Test.Filters}
	}
	i.setFluxHealth(release)
	if from.ServiceAccountName != "" {
		spec.ImpersonateServiceAccountName = from.ServiceAccountName
		i.gap("spec.serviceAccountName", "HelmOp impersonates the ServiceAccount in the namespace of the release, and "+
			"Flux in namespace %q; create the ServiceAccount there", release.Namespace)
	}
	if drift := from.DriftDetection; drift != nil {
		modes := map[string]addonsv1.DriftMode{"enabled": addonsv1.DriftModeCorrect, "warn": addonsv1.DriftModeWarn}
		if mode := modes[drift.Mode]; mode != "" {
			spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: mode,
				Ignore: slices.Concat(drift.Ignore, fluxExcluded)}
		}
	}
}

// setFluxHealth converts the wait for the objects of a release. Flux waits within the timeout of an action, and HelmOp
// after the action. HelmOp has one timeout for this, so it gets the longer one.
func (i *Item) setFluxHealth(release *helmRelease) {
	from, health := &release.Spec, &addonsv1.HealthOptions{Checks: release.Spec.HealthCheckExprs}
	timeout := max(ptr.Deref(or(from.Install.Timeout, from.Timeout), fluxTimeout).Duration,
		ptr.Deref(or(from.Upgrade.Timeout, from.Timeout), fluxTimeout).Duration)
	if timeout != fluxTimeout.Duration {
		health.Timeout = &metav1.Duration{Duration: timeout}
	}
	if from.Upgrade.DisableWait {
		health.Mode = addonsv1.HealthModeDisabled
		i.gap("spec.upgrade.disableWait", "HelmOp waits for objects after installations, too, or never; it does not monitor "+
			"the health of the release, unless you remove spec.health.mode")
	}
	if health.Mode != "" || health.Timeout != nil || len(health.Checks) > 0 {
		i.HelmOp.Spec.Health = health
	}
}

// fluxExcluded are the rules for objects that Flux does not compare, because the manifest has a label or an annotation.
var fluxExcluded = []addonsv1.DriftIgnoreRule{
	{Paths: []string{""}, Target: &addonsv1.ObjectSelector{AnnotationSelector: fluxExclusion}},
	{Paths: []string{""}, Target: &addonsv1.ObjectSelector{LabelSelector: fluxExclusion}},
}

// fluxExclusion selects the label or the annotation. Flux ignores the case of its value.
const fluxExclusion = "helm.toolkit.fluxcd.io/driftDetection in (disabled,Disabled)"

// set returns a pointer to true, or nil for false.
func set(value bool) *bool {
	if !value {
		return nil
	}
	return ptr.To(true)
}

// fluxRetry is the strategy with which Flux retries without a limit, and ignores the remediation.
const fluxRetry = "RetryOnFailure"

func (i *Item) setFluxInstall(release *helmRelease) {
	from, to := release.Spec.Install, install(i.HelmOp)
	to.Timeout = or(from.Timeout, release.Spec.Timeout)
	to.DisableHooks = set(from.DisableHooks)
	to.DisableOpenAPIValidation = set(from.DisableOpenAPIValidation)
	to.DisableSchemaValidation = set(from.DisableSchemaValidation)
	if !from.CreateNamespace {
		to.CreateNamespace = ptr.To(false)
	} else if release.Spec.ServiceAccountName != "" {
		to.CreateNamespace = ptr.To(true) // With a ServiceAccount, the default of HelmOp is false.
	}
	to.CRDs = from.CRDs
	if from.SkipCRDs {
		to.CRDs = addonsv1.CRDPolicySkip
	}
	if from.Strategy.Name == fluxRetry {
		to.Remediation = &addonsv1.InstallRemediation{Retries: ptr.To[int32](-1), Strategy: addonsv1.InstallRemediationRetry}
	} else if r := from.Remediation; r != nil {
		to.Remediation = &addonsv1.InstallRemediation{Retries: &r.Retries, Strategy: addonsv1.InstallRemediationUninstall}
		if r.Retries != 0 || ptr.Deref(r.RemediateLastFailure, false) {
			i.noteInstallRemediation("spec.install.remediation")
		}
	}
}

func (i *Item) setFluxUpgrade(release *helmRelease) {
	from, to := release.Spec.Upgrade, upgrade(i.HelmOp)
	to.Timeout = or(from.Timeout, release.Spec.Timeout)
	to.DisableHooks = set(from.DisableHooks)
	to.DisableOpenAPIValidation = set(from.DisableOpenAPIValidation)
	to.DisableSchemaValidation = set(from.DisableSchemaValidation)
	to.Force, to.CleanupOnFail = set(from.Force), set(from.CleanupOnFail)
	to.CRDs = cmp.Or(from.CRDs, to.CRDs)
	to.MaxHistory = release.Spec.MaxHistory
	if to.MaxHistory == nil {
		to.MaxHistory = ptr.To[int32](fluxMaxHistory)
	}
	if from.PreserveValues {
		to.ValuesPolicy = addonsv1.ValuesPolicyReuse
	}
	i.setFluxRemediation(release)
}

// setFluxRemediation converts what Flux does after a failed upgrade.
func (i *Item) setFluxRemediation(release *helmRelease) {
	from, test := release.Spec.Upgrade.Remediation, &release.Spec.Test
	if release.Spec.Upgrade.Strategy.Name == fluxRetry {
		upgrade(i.HelmOp).Remediation = &addonsv1.UpgradeRemediation{Retries: ptr.To[int32](-1),
			Strategy: addonsv1.UpgradeRemediationRetry}
		return
	}
	if from == nil {
		return
	}
	to := &addonsv1.UpgradeRemediation{Retries: &from.Retries, Strategy: addonsv1.UpgradeRemediationRollback}
	upgrade(i.HelmOp).Remediation = to
	isLastRemediated := from.Retries != 0
	if from.RemediateLastFailure != nil && from.Retries >= 0 {
		isLastRemediated = *from.RemediateLastFailure
	}
	switch {
	case from.Retries == 0 && !isLastRemediated:
		to.Strategy = addonsv1.UpgradeRemediationRetry // Flux keeps the failed upgrade.
		return
	case !isLastRemediated:
		i.gap("spec.upgrade.remediation.remediateLastFailure", "HelmOp rolls back after the last failed upgrade, too")
	}
	if from.Strategy == "uninstall" {
		i.gap("spec.upgrade.remediation.strategy", "HelmOp never uninstalls a release after a failed upgrade; it rolls back")
	}
	if from.IgnoreTestFailures && test.Enable && !test.IgnoreFailures {
		i.gap("spec.upgrade.remediation.ignoreTestFailures", "HelmOp also rolls back after failed tests; to prevent this, "+
			"set spec.test.ignoreFailures")
	}
}

func or(first, second *metav1.Duration) *metav1.Duration {
	if first != nil {
		return first
	}
	return second
}

// setFluxPostRender converts the post renderers. An adoption does not need the labels that Flux sets on all objects of
// a release.
func (i *Item) setFluxPostRender(release *helmRelease) {
	post := &addonsv1.PostRender{}
	if common := release.Spec.CommonMetadata; common != nil {
		post.CommonMetadata = &addonsv1.ObjectMetadata{Labels: escapeMap(common.Labels),
			Annotations: escapeMap(common.Annotations)}
	}
	for n, renderer := range release.Spec.PostRenderers {
		if renderer.Kustomize == nil {
			i.block(fmt.Sprintf("spec.postRenderers[%d]", n), "HelmOp supports kustomize only")
			continue
		}
		if n > 0 && len(post.Images) > 0 && len(renderer.Kustomize.Patches) > 0 {
			i.gap(fmt.Sprintf("spec.postRenderers[%d]", n), "HelmOp applies all patches before all images")
		}
		for _, patch := range renderer.Kustomize.Patches {
			patch.Patch = escape(patch.Patch)
			post.Patches = append(post.Patches, patch)
		}
		post.Images = append(post.Images, renderer.Kustomize.Images...)
	}
	if post.CommonMetadata != nil || len(post.Patches)+len(post.Images) > 0 {
		i.HelmOp.Spec.PostRender = post
	}
}

func escapeMap(from map[string]string) map[string]string {
	if from == nil {
		return nil
	}
	escaped := make(map[string]string, len(from))
	for key, value := range from {
		escaped[key] = escape(value)
	}
	return escaped
}
