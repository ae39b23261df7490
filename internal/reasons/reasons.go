// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package reasons

import (
	"errors"
	"slices"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// namedError maps an error of another package to the reason of a condition.
type namedError struct {
	err    error
	reason string
}

// registryErrors maps errors of a lookup or a pull from a registry. The first match applies.
var registryErrors = []namedError{
	{references.ErrReferenceNotFound, addonsv1.ReferenceNotFoundReason},
	{references.ErrReferenceForbidden, addonsv1.ReferenceNotFoundReason},
	{ErrDowngrade, addonsv1.DowngradeRefusedReason},
	{ErrVersionMoved, addonsv1.VersionMovedReason},
	{ocierr.ErrInvalidReference, addonsv1.InvalidReferenceReason},
	{ocierr.ErrAddressRefused, addonsv1.AddressRefusedReason},
	{ocierr.ErrInvalidAccess, addonsv1.RegistryAuthenticationFailedReason},
	{ocierr.ErrUnauthorized, addonsv1.RegistryAuthenticationFailedReason},
	{ocierr.ErrNoMatchingTag, addonsv1.NoMatchingTagReason},
	{ocierr.ErrNotFound, addonsv1.ArtifactNotFoundReason},
	{ocierr.ErrTLS, addonsv1.RegistryCertificateInvalidReason},
	{ocierr.ErrRateLimited, addonsv1.RegistryRateLimitedReason},
	{ocierr.ErrTooLarge, addonsv1.ArtifactInvalidReason},
	{ocierr.ErrIntegrity, addonsv1.ArtifactInvalidReason},
	{ocierr.ErrUnsupported, addonsv1.UnsupportedArtifactReason},
	{bundle.ErrUnsupported, addonsv1.UnsupportedArtifactReason},
	{ocierr.ErrServer, addonsv1.RegistryErrorReason},
	{ocierr.ErrUnreachable, addonsv1.RegistryUnreachableReason},
}

// verificationErrors maps errors of the verification of signatures.
var verificationErrors = []namedError{
	{verification.ErrInvalidPolicy, addonsv1.InvalidVerificationPolicyReason},
	{verification.ErrUnsigned, addonsv1.SignatureNotFoundReason},
	{verification.ErrUntrusted, addonsv1.SignatureUntrustedReason},
	{verification.ErrTrustRoot, addonsv1.TrustRootUnavailableReason},
}

// ArtifactErrors maps errors of the lookup, the pull and the verification of an artifact.
var ArtifactErrors = slices.Concat(verificationErrors, registryErrors)

// chartErrors maps errors of loading a chart from a pulled artifact.
var chartErrors = []namedError{
	{bundle.ErrUnsupported, addonsv1.UnsupportedArtifactReason},
	{bundle.ErrTooLarge, addonsv1.ChartInvalidReason},
	{bundle.ErrLimit, addonsv1.RenderLimitExceededReason},
	{bundle.ErrInvalidChart, addonsv1.ChartInvalidReason},
	{bundle.ErrInvalidManifests, addonsv1.ArtifactInvalidReason},
}

// pullErrors maps errors of pulling, verifying and loading an artifact. A lookup has found the digest of the artifact,
// so other content is a failure of the download and not of the artifact. A missing Secret with credentials or keys is
// no failure of the artifact either. For example, a tool replaces the Secret by deleting and creating it.
var pullErrors = slices.Concat(chartErrors, verificationErrors, []namedError{
	{ocierr.ErrIntegrity, addonsv1.ArtifactFetchFailedReason},
	{references.ErrReferenceNotFound, addonsv1.ArtifactFetchFailedReason},
	{references.ErrReferenceForbidden, addonsv1.ArtifactFetchFailedReason},
}, registryErrors)

// EngineErrors maps errors of the Helm engine in a workload cluster.
var EngineErrors = []namedError{
	{helmerr.ErrUnreachable, addonsv1.ClusterUnreachableReason},
	// Rejected credentials are replaced sooner or later. The link to the Cluster then uses the new credentials.
	{helmerr.ErrUnauthorized, addonsv1.ClusterUnreachableReason},
	{helmerr.ErrRefused, addonsv1.ConfirmationRequiredReason},
	{helmerr.ErrForbidden, addonsv1.ClusterForbiddenReason},
	{helmerr.ErrWouldChange, addonsv1.AdoptionWouldChangeReason},
	{helmerr.ErrConflict, addonsv1.ReleaseConflictReason},
	{helmerr.ErrTooLarge, addonsv1.ReleaseTooLargeReason},
	{helmerr.ErrRecordStorage, addonsv1.RecordStorageFailedReason},
	{helmerr.ErrRecordDamaged, addonsv1.RecordDamagedReason},
	{helmerr.ErrRenderLimit, addonsv1.RenderLimitExceededReason},
	{helmerr.ErrInvalidValues, addonsv1.ValuesInvalidReason},
	{helmerr.ErrInvalidChart, addonsv1.ChartInvalidReason},
	{helmerr.ErrChartFailed, addonsv1.ChartFailedReason},
	{helmerr.ErrKindNotServed, addonsv1.KindNotServedReason},
	{helmerr.ErrPostRender, addonsv1.PostRenderFailedReason},
	{connections.ErrInvalidTarget, addonsv1.KubeconfigRefusedReason},
}

// For returns the reason for the first entry that matches an error, or the fallback.
func For(err error, named []namedError, fallback string) string {
	for _, n := range named {
		if errors.Is(err, n.err) {
			return n.reason
		}
	}
	return fallback
}

// ForChart returns the reason for an error of pulling, verifying or loading a chart.
func ForChart(err error) string {
	return For(err, pullErrors, addonsv1.ArtifactFetchFailedReason)
}

// passing are reasons of a Ready condition that is False, besides [apiutil.ProgressReasons], that pass without a change
// by a user.
var passing = map[string]bool{
	addonsv1.WaitingForClustersReason:   true,
	addonsv1.RegistryUnreachableReason:  true,
	addonsv1.RegistryRateLimitedReason:  true,
	addonsv1.RegistryErrorReason:        true,
	addonsv1.TrustRootUnavailableReason: true,
	addonsv1.VerificationErrorReason:    true,
	addonsv1.ReleasePendingReason:       true,
	// After a restore, the HelmOp sets the missing owner reference. The wait says nothing about a HelmOp revision.
	addonsv1.OwnerNotFoundReason: true,
}

// IsPassing reports whether the state with a reason passes without a change by a user.
func IsPassing(reason string) bool { return apiutil.ProgressReasons[reason] || passing[reason] }

// notOfRevision are the other reasons of a release that say nothing about its HelmOp revision. The revision has the
// digest of its artifact, so the registry had the artifact. If a pull fails now, the cause may be the ingress of the
// registry, an expired certificate or password, or the disk of the manager. The API server of the management cluster
// may also fail, for a Secret with credentials or an object that the values need.
var notOfRevision = map[string]bool{
	addonsv1.RegistryAuthenticationFailedReason: true,
	addonsv1.RegistryCertificateInvalidReason:   true,
	addonsv1.ArtifactNotFoundReason:             true,
	addonsv1.ArtifactFetchFailedReason:          true,
	addonsv1.ObjectReadFailedReason:             true,
}

// IsWaiting reports whether a release that is not Ready for a reason only waits. HelmOp has changed nothing in its
// Cluster, and the reason says nothing about its HelmOp revision.
func IsWaiting(reason string) bool { return IsPassing(reason) || notOfRevision[reason] }

// ForRendering returns the reason for an error of rendering the templates of a HelmOp for a Cluster.
func ForRendering(err error) string {
	var denied *selection.AccessDeniedError
	var unresolved *UnresolvedError
	var invalid *render.VariantError
	switch {
	case errors.As(err, &denied):
		return addonsv1.ClusterAccessDeniedReason
	case errors.As(err, &unresolved):
		return unresolved.Reason
	case errors.As(err, &invalid):
		return addonsv1.InvalidOverrideReason
	case errors.Is(err, references.ErrReferenceNotFound), errors.Is(err, references.ErrReferenceForbidden):
		return addonsv1.ReferenceNotFoundReason
	case errors.Is(err, ErrRecord):
		return addonsv1.RecordFailedReason
	case errors.Is(err, render.ErrObjectRead), errors.Is(err, selection.ErrAccessUnknown):
		return addonsv1.ObjectReadFailedReason
	default:
		return addonsv1.TemplateFailedReason
	}
}
