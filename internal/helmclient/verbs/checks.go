// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/waits"
)

// checkNewest returns an error if the newest revision is not the revision that the decision is based on, or has another
// owner since then. Helm's lock separates two actions, but it does not protect a decision against later changes.
func (s *verb) checkNewest() error {
	if s.Decision.FromRevision == 0 || s.Decision.Recovery == decide.RecoverReplace {
		// hidePending has checked the newest revision and then hidden its record.
		return nil
	}
	last, err := s.Config.Releases.Last(s.Desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d no longer exists", s.Decision.FromRevision)
	}
	if err != nil {
		return fmt.Errorf("reading Helm revision %d: %w", s.Decision.FromRevision, err)
	}
	if last.Version != s.Decision.FromRevision {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d was created after Helm revision "+
			"%d", last.Version, s.Decision.FromRevision)
	}
	if err := s.checkSameRecord(); err != nil {
		return err
	}
	if err := checkOwner(last, s.Decision, s.Desired); err != nil {
		return err
	}
	return checkNotUninstalled(last)
}

// checkOwner returns an error if the newest revision belongs to another owner, object or management cluster since the
// decision: an adoption or a takeover may change only the labels of the record. A decision about a release of another
// owner permits to change it. After a move, the record may have the UID of the former object. So the UID is compared
// with the record of the decision.
func checkOwner(last *release.Release, decision decide.Decision, desired model.Desired) error {
	owner, management := last.Labels[model.LabelOwner], last.Labels[model.LabelManagementCluster]
	switch {
	case decision.State == model.StateForeign:
		return nil
	case owner != "" && owner != model.OwnerLabel(desired.Owner):
		return helmerr.New(helmerr.ErrStale, "Helm revision %d belongs to HelmOp %q", last.Version, owner)
	case !model.IsManagedBy(management, desired):
		return helmerr.New(helmerr.ErrStale, "Helm revision %d belongs to the management cluster %q", last.Version,
			management)
	case decision.FromUID != "" && last.Labels[model.LabelReleaseUID] != decision.FromUID:
		return helmerr.New(helmerr.ErrStale, "Helm revision %d belongs to another HelmOpRelease of HelmOp %q", last.Version,
			owner)
	}
	return nil
}

// checkSameRecord returns an error if the record is not the record that the decision is based on. A reinstalled release
// has another record with the same number.
func (s *verb) checkSameRecord() error {
	if s.Records == nil {
		return nil
	}
	id := s.Records.SeenUID(records.NameOf(s.Desired.Name, s.Decision.FromRevision))
	if id != "" && s.Decision.FromID != "" && id != s.Decision.FromID {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d was re-created after it was observed", s.Decision.FromRevision)
	}
	return nil
}

// checkNotUninstalled returns an error if the newest record shows that an uninstallation of the release has begun.
func checkNotUninstalled(last *release.Release) error {
	if records.IsUninstalling(last) {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d is being uninstalled", last.Version)
	}
	return nil
}

// checkNeverWorked returns an error if the newest revision is not the failed attempt of HelmOp that the decision is
// based on. A release that works now, or belongs to another owner, must not be uninstalled because of an earlier
// failure.
func (s *verb) checkNeverWorked() error {
	if s.Cluster != nil {
		conn := s.Cluster.Clients.Conn
		conn.Observations.Drop(conn.ObservationKey(s.Desired.Namespace, s.Desired.Name))
	}
	if err := s.checkNewest(); err != nil {
		return err
	}
	last, err := s.Config.Releases.Last(s.Desired.Name)
	if err != nil {
		return fmt.Errorf("reading Helm revision %d: %w", s.Decision.FromRevision, err)
	}
	switch {
	case last.Info == nil || last.Info.Status != release.StatusFailed:
		return helmerr.New(helmerr.ErrStale, "Helm revision %d is no longer marked as failed", last.Version)
	case last.Labels[model.LabelRevision] != strconv.Itoa(last.Version), s.Desired.UID == "",
		last.Labels[model.LabelReleaseUID] != s.Desired.UID:
		return helmerr.New(helmerr.ErrStale, "Helm revision %d was not made by HelmOp", last.Version)
	}
	return nil
}

// checkRecorded returns an error if the outcome of the action was not saved. Helm only logs this failure and returns
// success. outcome is the status of the newest revision after a success.
func (s *verb) checkRecorded(outcome release.Status) error {
	if newest := s.Storage.Newest(); newest == nil || newest.Info.Status != outcome {
		return helmerr.New(helmerr.ErrUnreachable,
			"the release is %s, but its record was not saved: the next reconciliation recovers the release", outcome)
	}
	return nil
}

// checkRecordExists returns an error if the newest record that the action saved no longer exists.
func (s *verb) checkRecordExists() error {
	newest := s.Storage.Newest()
	if newest == nil || s.Records == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), waits.RecordInterval)
	defer cancel()
	_, err := s.Records.Metadata.Get(ctx, records.NameOf(s.Desired.Name, newest.Version), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return helmerr.New(helmerr.ErrStale,
			"the record of Helm revision %d no longer exists: another process uninstalled the release", newest.Version)
	}
	// Other errors appear when the wait ends.
	return nil
}
