// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// fleetMaxHistory is how many Helm revisions Fleet keeps by default.
const fleetMaxHistory = 2

// setFleetSource converts the chart of a HelmOp of Fleet, and the access to it.
func (r *fleetReader) setFleetSource(i *Item, from *fleetHelmOp) {
	helm, source := from.Spec.Helm, &i.HelmOp.Spec.Source
	source.Ref = refOf(helm.Version)
	switch {
	case strings.HasSuffix(strings.ToLower(helm.Chart), ".tgz"):
		i.block("spec.helm.chart", "HelmOp reads charts from a registry or a chart repository, and not from the address of "+
			"an archive; set spec.helm.repo, spec.helm.chart and spec.helm.version")
	case isOCI(helm.Repo):
		source.URL = strings.TrimSuffix(helm.Repo, "/")
	default:
		i.setChart(helm.Repo, helm.Chart)
	}
	if interval := from.Spec.PollingInterval; interval != nil && interval.Duration > 0 {
		source.Interval = *interval
	}
	if source.Ref.Semver != "" {
		// Any change of the object makes Fleet resolve the version again, and the migration must change the object.
		i.block("spec.helm.version", "it is not an exact version, so Fleet could upgrade the releases during the migration, "+
			"and HelmOp would install another version; set spec.helm.version to %s, remove spec.pollingInterval, "+
			"wait until Fleet is ready, and repeat the command",
			nonEmpty(from.Status.Version, "the exact version of the releases"))
	}
	if from.Spec.InsecureSkipTLSVerify {
		i.block("spec.insecureSkipTLSVerify", "HelmOp verifies the certificate of the registry; set cacerts in the Secret "+
			"of spec.helmSecretName")
	}
	r.setFleetSecret(i, from)
}

// setFleetSecret converts the Secret with the access to the chart.
func (r *fleetReader) setFleetSecret(i *Item, from *fleetHelmOp) {
	name, source := from.Spec.HelmSecretName, &i.HelmOp.Spec.Source
	if name == "" {
		return
	}
	source.SecretRef = &addonsv1.SecretReference{Name: name}
	if isOCI(source.URL) {
		source.SecretRef.Name = name + "-dockerconfigjson"
		i.blockSecret(source.SecretRef.Name, "HelmOp reads the credentials of a registry in a Secret of type "+
			"kubernetes.io/dockerconfigjson; create the Secret %s/%s with the username and the password of the Secret %q",
			from.Namespace, source.SecretRef.Name, name)
	}
	secret, found := r.secrets[name]
	if !found {
		i.block("spec.helmSecretName", "the Secret %q cannot be read; HelmOp needs to know whether it has the key cacerts "+
			"or basicHTTP", name)
	}
	source.Insecure = source.Insecure || secret.IsHTTP
	if secret.HasCA {
		source.CertSecretRef = &addonsv1.SecretReference{Name: name + "-ca"}
		i.blockSecret(source.CertSecretRef.Name, "HelmOp reads certificates of authorities in the key ca.crt; create the "+
			"Secret %s/%s with the value of cacerts of the Secret %q", from.Namespace, source.CertSecretRef.Name, name)
	}
}

// blockSecret adds a blocking gap that a Secret resolves.
func (i *Item) blockSecret(secret, format string, args ...any) {
	i.block("spec.helmSecretName", format, args...)
	i.Gaps[len(i.Gaps)-1].Secret = secret
}

// setFleetOptions converts the options of Helm, and the options for the comparison and the deletion of releases.
func (i *Item) setFleetOptions(from *fleetHelmOp) {
	spec, options := &i.HelmOp.Spec, &from.Spec.fleetOptions
	mapped := i.fleetReleaseOptions("spec", options, options.CreateNamespace)
	install(i.HelmOp).Timeout, upgrade(i.HelmOp).Timeout = mapped.Install.Timeout, mapped.Upgrade.Timeout
	install(i.HelmOp).DisableSchemaValidation = mapped.Install.DisableSchemaValidation
	mapped.Upgrade.CRDs = upgrade(i.HelmOp).CRDs
	spec.Upgrade, spec.Health, spec.DriftDetection = mapped.Upgrade, mapped.Health, mapped.DriftDetection
	spec.Rollback = mapped.Rollback
	spec.ImpersonateServiceAccountName = mapped.ImpersonateServiceAccountName
	upgrade(i.HelmOp).MaxHistory = ptr.To(cmp.Or(options.Helm.MaxHistory, fleetMaxHistory))
	if spec.DriftDetection == nil {
		// Fleet always compares the objects, and reports differences.
		spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
	}
	spec.DriftDetection.Ignore = i.fleetIgnoreRules("spec.diff", options)
	install(i.HelmOp).CreateNamespace = cmp.Or(options.CreateNamespace, mapped.Install.CreateNamespace)
	install(i.HelmOp).NamespaceMetadata = namespaceMetadata(from)
	if options.KeepResources && !IsKeptByMigration(&from.ObjectMeta) {
		spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan
	}
	if options.TargetNamespace != "" {
		i.gap("spec.namespace", "Fleet moves all objects to this namespace, and HelmOp does not move objects for which the "+
			"chart names another one; the preview shows them")
	}
	if options.DeleteNamespace {
		i.gap("spec.deleteNamespace", "HelmOp never deletes a namespace")
	}
	if !options.DeleteCRDResources {
		i.gap("spec.deleteCRDResources", "Fleet keeps CustomResourceDefinitions that are templates of the chart; HelmOp "+
			"uninstalls them unless they have the annotation helm.sh/resource-policy: keep, see spec.postRender")
	}
	if options.Ignore != nil && len(options.Ignore.Conditions) > 0 {
		i.gap("spec.ignore", "HelmOp has no conditions to ignore; write spec.health.checks for objects that are never ready")
	}
	i.setFleetRollout(from)
}

// setFleetRollout converts the rollout strategy.
func (i *Item) setFleetRollout(from *fleetHelmOp) {
	strategy := from.Spec.RolloutStrategy
	if strategy == nil {
		return
	}
	if most := strategy.MaxUnavailable; most != nil && *most != intstr.FromString("100%") {
		if *most == intstr.FromInt32(0) || *most == intstr.FromString("0%") {
			i.gap("spec.rolloutStrategy.maxUnavailable", "HelmOp updates at least one Cluster at a time")
			most = ptr.To(intstr.FromInt32(1))
		}
		i.HelmOp.Spec.Rollout = &addonsv1.Rollout{MaxUnavailable: most}
	}
	if len(strategy.Partitions) > 0 {
		i.gap("spec.rolloutStrategy.partitions", "write spec.rollout.waves instead: a wave selects Clusters by their "+
			"labels, and Clusters without a wave are last")
	}
}

// fleetReleaseOptions converts the options that a target may also set. Install and Upgrade of the result are set.
// createNamespace is the option of the HelmOp of Fleet, which a target does not change.
func (i *Item) fleetReleaseOptions(field string, from *fleetOptions, createNamespace *bool) addonsv1.ReleaseOptions {
	mapped := addonsv1.ReleaseOptions{Install: &addonsv1.InstallOptions{}, Upgrade: &addonsv1.UpgradeOptions{}}
	if helm := from.Helm; helm != nil {
		if helm.TimeoutSeconds > 0 {
			timeout := &metav1.Duration{Duration: time.Duration(helm.TimeoutSeconds) * time.Second}
			mapped.Install.Timeout, mapped.Upgrade.Timeout = timeout, timeout
			mapped.Health = &addonsv1.HealthOptions{Timeout: timeout}
		}
		mapped.Upgrade.Force = set(helm.Force)
		mapped.Install.DisableSchemaValidation = set(helm.SkipSchemaValidation)
		mapped.Upgrade.DisableSchemaValidation = set(helm.SkipSchemaValidation)
		if helm.Atomic {
			// The installation must not be rolled back: HelmOp installs the chart over objects that are in use.
			mapped.Upgrade.Remediation = &addonsv1.UpgradeRemediation{Strategy: addonsv1.UpgradeRemediationRollback}
			if timeout := mapped.Upgrade.Timeout; timeout != nil {
				mapped.Rollback = &addonsv1.RollbackOptions{Timeout: timeout}
			}
		}
	}
	if account := from.ServiceAccount; account != "" {
		mapped.ImpersonateServiceAccountName = account
		if createNamespace == nil {
			mapped.Install.CreateNamespace = ptr.To(true) // With a ServiceAccount, the default of HelmOp is false.
		}
		i.gap(field+".serviceAccount", "HelmOp impersonates the ServiceAccount %q in the namespace of the release, and "+
			"Fleet in that of its agent; create the ServiceAccount there", account)
	}
	if drift := from.CorrectDrift; drift != nil && drift.Enabled {
		mapped.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeCorrect}
		if drift.Force {
			i.gap(field+".correctDrift.force", "HelmOp does not re-create an object to correct it")
		}
	}
	return mapped
}

// fleetIgnoreRules converts the rules for what Fleet ignores in comparisons.
func (i *Item) fleetIgnoreRules(field string, from *fleetOptions) []addonsv1.DriftIgnoreRule {
	if from.Diff == nil {
		return nil
	}
	var rules []addonsv1.DriftIgnoreRule
	for _, patch := range from.Diff.ComparePatches {
		rule := addonsv1.DriftIgnoreRule{Paths: slices.Clone(patch.JSONPointers), Target: &addonsv1.ObjectSelector{
			Kind: regexp.QuoteMeta(patch.Kind), Name: regexp.QuoteMeta(patch.Name),
			Namespace: regexp.QuoteMeta(patch.Namespace)}}
		if group, err := schema.ParseGroupVersion(patch.APIVersion); err == nil {
			rule.Target.Group, rule.Target.Version = regexp.QuoteMeta(group.Group), regexp.QuoteMeta(group.Version)
		}
		for _, operation := range patch.Operations {
			switch operation.Op {
			case "ignore":
				// The name is a regular expression that may match a part of the name.
				rule.Paths = append(rule.Paths, "")
				if patch.Name != "" {
					rule.Target.Name = ".*(?:" + patch.Name + ").*"
				}
			case "remove":
				rule.Paths = append(rule.Paths, operation.Path)
			default:
				i.gap(field, "HelmOp has no operation %q; list the path of the field in spec.driftDetection.ignore", operation.Op)
			}
		}
		if len(rule.Paths) > 0 {
			rules = append(rules, rule)
		}
	}
	return rules
}
