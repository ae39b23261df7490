// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasespec

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// PendingTimeout is the age after which an unfinished action of another program counts as abandoned. The default
// timeout of Helm is 5 min, and users rarely set more than 15 min.
const PendingTimeout = 15 * time.Minute

// DesiredOf returns the desired state and the options of a release, in the types of the engine.
func DesiredOf(release *addonsv1.HelmOpRelease) (model.Desired, model.Options) {
	options := OptionsOf(&release.Spec.ReleaseOptions)
	if release.Spec.Artifact.Format != "" && !hasCRDPolicy(&release.Spec.ReleaseOptions) {
		options.Install.CRDs, options.Upgrade.CRDs = model.CRDsCreateReplace, model.CRDsCreateReplace
	}
	// Only drift detection reads the manifest of a Helm revision more than once.
	options.KeepManifest = DriftModeOf(&release.Spec) != addonsv1.DriftModeDisabled
	owner := metav1.GetControllerOf(release)
	ownerName := ""
	if owner != nil {
		ownerName = owner.Name
	}
	return model.Desired{
		Name:               release.Spec.Release.Name,
		Namespace:          release.Spec.Release.Namespace,
		Owner:              release.Namespace + "." + ownerName,
		UID:                string(release.UID),
		Shard:              release.Labels[addonsv1.ShardLabel],
		ClusterRecreatedAt: release.Status.ClusterRecreatedAt.Time,
		ArtifactDigest:     apiutil.ArtifactIdentity(&release.Spec.Artifact),
		ValuesDigest:       release.Spec.ValuesDigest,
		OptionsDigest:      model.OptionsDigest(options),
		PostRenderDigest:   release.Spec.PostRenderDigest,
		Return:             isReturned(&release.Spec),
	}, options
}

// NameManagementCluster sets the UID of the management cluster in the desired state of a release. It also sets the UIDs
// of the management clusters from which the release was moved or restored.
func NameManagementCluster(desired *model.Desired, release *addonsv1.HelmOpRelease, uid string) {
	desired.ManagementCluster, desired.FormerManagementClusters = uid, nil
	for former := range strings.SplitSeq(release.Annotations[addonsv1.ManagementClusterAnnotation], ",") {
		if former = strings.TrimSpace(former); former != "" && former != uid {
			desired.FormerManagementClusters = append(desired.FormerManagementClusters, former)
		}
	}
}

// isReturned reports whether the desired state of a release is an earlier state: its HelmOp abandoned a newer HelmOp
// revision and returned to this state.
func isReturned(spec *addonsv1.HelmOpReleaseSpec) bool {
	return spec.Rollout != nil && spec.Rollout.Reason == addonsv1.ReleaseRolloutReturned
}

// OptionsOf converts the options of a release to those of the engine. For an option that is not set, the default of the
// engine applies.
func OptionsOf(spec *addonsv1.ReleaseOptions) model.Options {
	options := model.Options{
		Install:   installOptions(ptr.Deref(spec.Install, addonsv1.InstallOptions{})),
		Upgrade:   upgradeOptions(ptr.Deref(spec.Upgrade, addonsv1.UpgradeOptions{})),
		Rollback:  rollbackOptions(ptr.Deref(spec.Rollback, addonsv1.RollbackOptions{})),
		Uninstall: uninstallOptions(ptr.Deref(spec.Uninstall, addonsv1.UninstallOptions{})),
		Test:      testOptions(ptr.Deref(spec.Test, addonsv1.TestOptions{})),
	}
	options.Upgrade.TakeOwnership = options.Install.TakeOwnership
	return options
}

func installOptions(spec addonsv1.InstallOptions) model.InstallOptions {
	metadata := ptr.Deref(spec.NamespaceMetadata, addonsv1.ObjectMetadata{})
	return model.InstallOptions{
		Timeout:                  Duration(spec.Timeout),
		DisableHooks:             ptr.Deref(spec.DisableHooks, false),
		CreateNamespace:          spec.CreateNamespace,
		NamespaceLabels:          metadata.Labels,
		NamespaceAnnotations:     metadata.Annotations,
		CRDs:                     crdPolicy(spec.CRDs),
		TakeOwnership:            ptr.Deref(spec.TakeOwnership, false),
		DisableOpenAPIValidation: ptr.Deref(spec.DisableOpenAPIValidation, false),
		DisableSchemaValidation:  ptr.Deref(spec.DisableSchemaValidation, false),
	}
}

func upgradeOptions(spec addonsv1.UpgradeOptions) model.UpgradeOptions {
	options := model.UpgradeOptions{
		Timeout:                  Duration(spec.Timeout),
		DisableHooks:             ptr.Deref(spec.DisableHooks, false),
		Force:                    ptr.Deref(spec.Force, false),
		CleanupOnFail:            ptr.Deref(spec.CleanupOnFail, false),
		CRDs:                     crdPolicy(spec.CRDs),
		DisableOpenAPIValidation: ptr.Deref(spec.DisableOpenAPIValidation, false),
		DisableSchemaValidation:  ptr.Deref(spec.DisableSchemaValidation, false),
	}
	if spec.ValuesPolicy != addonsv1.ValuesPolicyReset {
		options.Values = model.ValuesPolicy(spec.ValuesPolicy)
	}
	if spec.MaxHistory != nil {
		options.MaxHistory = ptr.To(int(*spec.MaxHistory))
	}
	return options
}

func rollbackOptions(spec addonsv1.RollbackOptions) model.RollbackOptions {
	return model.RollbackOptions{
		Timeout:       Duration(spec.Timeout),
		DisableHooks:  ptr.Deref(spec.DisableHooks, false),
		Force:         ptr.Deref(spec.Force, false),
		CleanupOnFail: ptr.Deref(spec.CleanupOnFail, false),
	}
}

func uninstallOptions(spec addonsv1.UninstallOptions) model.UninstallOptions {
	return model.UninstallOptions{
		Timeout:      Duration(spec.Timeout),
		DisableHooks: ptr.Deref(spec.DisableHooks, false),
		KeepHistory:  ptr.Deref(spec.KeepHistory, false),
		Propagation:  metav1.DeletionPropagation(spec.DeletionPropagation),
	}
}

func testOptions(spec addonsv1.TestOptions) model.TestOptions {
	options := model.TestOptions{Timeout: Duration(spec.Timeout)}
	for _, filter := range spec.Filters {
		if filter.Exclude {
			options.Except = append(options.Except, filter.Name)
		} else {
			options.Only = append(options.Only, filter.Name)
		}
	}
	return options
}

// hasCRDPolicy reports whether the options set a policy for CRDs. Without a policy, HelmOp replaces the CRDs of an
// artifact that is not a chart, like all other objects of the artifact.
func hasCRDPolicy(spec *addonsv1.ReleaseOptions) bool {
	return spec.Install != nil && spec.Install.CRDs != "" || spec.Upgrade != nil && spec.Upgrade.CRDs != ""
}

// crdPolicy converts a policy for CRDs to the type of the engine.
func crdPolicy(policy addonsv1.CRDPolicy) model.CRDPolicy {
	if policy == addonsv1.CRDPolicyCreate {
		return model.CRDsCreate
	}
	return model.CRDPolicy(policy)
}

// Duration converts a duration of the API; 0 if it is not set.
func Duration(d *metav1.Duration) time.Duration { return ptr.Deref(d, metav1.Duration{}).Duration }

// PolicyOf returns the policy with which the engine decides about a release: retries, remediation, tests and drift.
func PolicyOf(spec *addonsv1.HelmOpReleaseSpec) model.Policy {
	policy := model.Policy{
		PendingTimeout: PendingTimeout,
		CorrectDrift:   DriftModeOf(spec) == addonsv1.DriftModeCorrect,
		InstallOnce:    IsInstalledOnce(spec),
	}
	if spec.Install != nil {
		policy.TakeOwnership = ptr.Deref(spec.Install.TakeOwnership, false)
		policy.AdoptUnchangedOnly = spec.Install.Adoption == addonsv1.AdoptionPolicyWhenUnchanged
		if remediation := spec.Install.Remediation; remediation != nil {
			policy.Install.Retries = toInt(remediation.Retries)
			if remediation.Strategy == addonsv1.InstallRemediationUninstall {
				policy.Install.Remediate = model.RemediateUninstall
			}
		}
	}
	if spec.Upgrade != nil && spec.Upgrade.Remediation != nil {
		policy.Upgrade.Retries = toInt(spec.Upgrade.Remediation.Retries)
		if spec.Upgrade.Remediation.Strategy == addonsv1.UpgradeRemediationRollback {
			policy.Upgrade.Remediate = model.RemediateRollback
		}
	}
	if spec.Test != nil {
		policy.Test = model.TestPolicy{
			Enabled:        spec.Test.Mode == addonsv1.TestModeEnabled,
			IgnoreFailures: ptr.Deref(spec.Test.IgnoreFailures, false),
		}
	}
	return policy
}

func toInt(n *int32) *int {
	if n == nil {
		return nil
	}
	return ptr.To(int(*n))
}

// PostRender converts a spec.postRender, rendered for a Cluster as a JSON object, to the type of the engine; nil if
// there is none.
func PostRender(object map[string]any) (*model.PostRender, error) {
	if object == nil {
		return nil, nil
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var spec addonsv1.PostRender
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, fmt.Errorf("spec.postRender: %w", err)
	}
	var rendered model.PostRender
	for _, patch := range spec.Patches {
		rendered.Patches = append(rendered.Patches, model.Patch{Patch: patch.Patch, Target: ObjectSelector(patch.Target)})
	}
	for _, image := range spec.Images {
		rendered.Images = append(rendered.Images, model.ImageOverride{
			Name: image.Name, NewName: image.NewName, NewTag: image.NewTag, Digest: image.Digest,
		})
	}
	if metadata := spec.CommonMetadata; metadata != nil {
		rendered.Labels, rendered.Annotations = metadata.Labels, metadata.Annotations
	}
	return &rendered, nil
}

// ObjectSelector converts a selector of objects; nil if it is not set.
func ObjectSelector(selector *addonsv1.ObjectSelector) *inventory.Selector {
	if selector == nil {
		return nil
	}
	return &inventory.Selector{
		Group: selector.Group, Version: selector.Version, Kind: selector.Kind,
		Name: selector.Name, Namespace: selector.Namespace,
		LabelSelector: selector.LabelSelector, AnnotationSelector: selector.AnnotationSelector,
	}
}

// Impersonated returns the name of the user that the manager impersonates in the cluster of a release. It is empty if
// the manager acts as the user of the kubeconfig. In the management cluster, the manager always impersonates a user.
func Impersonated(release *addonsv1.HelmOpRelease) string {
	spec := &release.Spec
	account := func(namespace string) string {
		return "system:serviceaccount:" + namespace + ":" + spec.ImpersonateServiceAccountName
	}
	switch {
	case apiutil.ClusterKey(release) == clusterlink.Management:
		// Without a service account, the manager impersonates a user that does not exist. So the manager's own permissions
		// are never used.
		return account(release.Namespace)
	case spec.ImpersonateServiceAccountName == "":
		return ""
	default:
		return account(spec.Release.Namespace)
	}
}

// IsDone reports whether a release was installed once and its spec has the reconcileStrategy InstallOnce. HelmOp then
// does not change the release any more.
func IsDone(spec *addonsv1.HelmOpReleaseSpec, release *addonsv1.HelmOpRelease) bool {
	return IsInstalledOnce(spec) && release.Annotations[addonsv1.InstalledOnceAnnotation] == "true"
}

// InstalledOnce is the message about a release for which IsDone is true.
const InstalledOnce = "The release was installed once (reconcileStrategy InstallOnce). HelmOp does not change it any " +
	"more, and keeps its name and its namespace"

// KeepIdentity gives a desired spec the name and the namespace of the existing release if the release was installed
// once. A release with another name is another release: HelmOp would have to uninstall the existing release, or would
// install a second one beside it. child is nil if there is no HelmOpRelease.
func KeepIdentity(spec *addonsv1.HelmOpReleaseSpec, child *addonsv1.HelmOpRelease) {
	if child != nil && IsDone(spec, child) {
		spec.Release = child.Spec.Release
	}
}

// IsInstalledOnce reports whether HelmOp does not change a release after its installation. Default: false.
func IsInstalledOnce(spec *addonsv1.HelmOpReleaseSpec) bool {
	return spec.ReconcileStrategy == addonsv1.ReconcileStrategyInstallOnce
}

// DriftModeOf returns the mode of drift detection of a release. Default: Disabled. It is Disabled for a release that is
// installed once.
func DriftModeOf(spec *addonsv1.HelmOpReleaseSpec) addonsv1.DriftMode {
	if IsInstalledOnce(spec) || spec.DriftDetection == nil || spec.DriftDetection.Mode == "" {
		return addonsv1.DriftModeDisabled
	}
	return spec.DriftDetection.Mode
}

// FollowsHealth reports whether HelmOp watches the health of the objects of a release: health.mode is not Disabled.
// Default: true.
func FollowsHealth(spec *addonsv1.HelmOpReleaseSpec) bool {
	return spec.Health == nil || spec.Health.Mode != addonsv1.HealthModeDisabled
}
