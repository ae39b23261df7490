// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drifttracking

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releaseinventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

const (
	// driftTimeout is the timeout of a comparison, and of a correction, in one pass. The next pass, which is due after
	// driftContinues, handles the remaining objects.
	driftTimeout   = 30 * time.Second
	driftContinues = 2 * time.Second
	// recordsTTL is how long corrections of existing objects rely on a read of the records of the release.
	recordsTTL = time.Second
)

// Engine reads what a release installed, and guards a release during a correction. Package helmclient implements it,
// see Lock and Confirm of its Client.
type Engine interface {
	Manifest(ctx context.Context, target model.Target, namespace, name string, revision int, keep bool,
		use func([]*unstructured.Unstructured)) error
	Access(target model.Target) (*model.Access, error)
	Lock(target model.Target, desired model.Desired) (unlock func(), err error)
	Confirm(ctx context.Context, target model.Target, desired model.Desired, observed model.Record) error
}

// Pass is the drift detection in one pass over a release. The fields up to Now are required.
type Pass struct {
	Release *addonsv1.HelmOpRelease

	// Memory is the state of drift detection of the release.
	Memory *driftmemory.Memory

	// Snapshot is the state of the objects according to the watches; nil if it is not known.
	Snapshot *objectwatch.Snapshot

	// Target is the connection to the workload cluster, and Desired is the desired state.
	Target  model.Target
	Desired model.Desired

	// Newest is the newest record if its status is deployed; otherwise the zero value.
	Newest model.Record

	// RetryRequest is a retry request that is not carried out yet; empty if there is none. Comparisons and corrections
	// that failed before are then repeated at once.
	RetryRequest string

	// IsCorrecting is true if differences are corrected. WhyDeferred is the reason why they are corrected later; empty
	// otherwise.
	IsCorrecting bool
	WhyDeferred  string

	Engine Engine

	// Acquire acquires a slot for requests to the cluster. MayBegin reports whether the release may still be changed.
	Acquire  func() (done func(), ok bool)
	MayBegin func(ctx context.Context) (bool, error)

	Now func() time.Time

	// Differences are the differences that Compare found.
	Differences []drift.Difference

	// RequeueAfter is the delay after which the next comparison or correction is due; 0 means never.
	RequeueAfter time.Duration

	// confirmedAt is when Correct last read the records; zero if it did not read them.
	confirmedAt time.Time
}

// Compare compares objects that changed since their last comparison, and updates status.drift and the condition
// Drifted. It sets Differences. hasMore is true if there are more differences than in the last pass.
func (p *Pass) Compare(ctx context.Context) (hasMore bool) {
	release := p.Release
	switch {
	case releasespec.DriftModeOf(&release.Spec) == addonsv1.DriftModeDisabled:
		conditions.Delete(release, addonsv1.DriftedCondition)
		release.Status.Drift = nil
		*p.Memory = driftmemory.Memory{}
		return false
	case isDenied(p.Snapshot) || stuckError(p.Snapshot, p.Now()) != nil && !p.Snapshot.Synced:
		reportUnwatched(release, p.Snapshot.Err)
		return false
	case p.Snapshot == nil || !p.Snapshot.Synced || !releaseinventory.IsOf(release, p.Newest.Revision):
		return false
	}
	ignored, err := apiutil.DigestOf(release.Spec.DriftDetection.Ignore)
	if err != nil {
		report.SetCondition(release, addonsv1.DriftedCondition, metav1.ConditionUnknown,
			addonsv1.DriftCheckFailedReason, err.Error())
		return false
	}
	p.Memory.Begin(p.Newest.Revision, ignored, release.Status.Drift, p.Snapshot)
	p.Memory.RetryFor(p.RetryRequest)
	if driftmemory.IsFullCheckDue(release, p.Now()) {
		p.Memory.BeginCheck()
		if release.Status.Drift == nil {
			release.Status.Drift = &addonsv1.DriftStatus{}
		}
		release.Status.Drift.LastCheckedAt = metav1.NewTime(p.Now())
	}
	if suspects := p.Memory.Suspects(p.Snapshot, p.IsCorrecting, p.Now()); len(suspects) > 0 {
		done, ok := p.Acquire()
		if !ok {
			return false
		}
		defer done()
		known := len(p.Memory.Differing)
		if err = p.compare(ctx, suspects); ctx.Err() != nil {
			return false
		}
		hasMore = len(p.Memory.Differing) > known
	}
	p.report(p.Memory.Left(p.Snapshot), err)
	return hasMore
}

var errInvalidDriftRule = errors.New("spec.driftDetection.ignore")

func driftErrorReason(err error) string {
	if errors.Is(err, errInvalidDriftRule) {
		return addonsv1.InvalidDriftRuleReason
	}
	return addonsv1.DriftCheckFailedReason
}

// compare compares objects with what the release installed. It records failed comparisons in the memory. The error
// means that the ignore rules are not valid.
func (p *Pass) compare(ctx context.Context, suspects map[inventory.Ref]bool) error {
	rules, err := driftRules(p.Release.Spec.DriftDetection)
	if err != nil {
		return fmt.Errorf("%w: %w", errInvalidDriftRule, err)
	}
	ctx, cancel := context.WithTimeout(ctx, driftTimeout)
	defer cancel()
	compared, found, err := p.compareSuspects(ctx, suspects, rules)
	if err != nil {
		p.Memory.Uncompared.Add(inventory.Ref{}, 0, err, p.Now())
		return nil
	}
	p.Memory.Update(suspects, compared, found, p.Snapshot, p.Now())
	p.Differences = found.Differences
	if p.Memory.Left(p.Snapshot) > 0 {
		p.due(driftmemory.Retry)
		if len(found.Compared) > 0 {
			// The timeout ended the comparison, but some objects were compared: continue soon.
			p.due(driftContinues)
		}
	}
	return nil
}

// compareSuspects returns the objects to compare and the result of their comparison. The error means that no object
// could be compared.
func (p *Pass) compareSuspects(ctx context.Context, suspects map[inventory.Ref]bool,
	rules *drift.Rules,
) (compared []inventory.Ref, found drift.Comparison, err error) {
	access, err := p.Engine.Access(p.Target)
	if err != nil {
		return nil, drift.Comparison{}, err
	}
	cluster := drift.Cluster{Config: access.Config, Mapper: access.Mapper}
	release := drift.Release{Namespace: p.Desired.Namespace, Name: p.Desired.Name}
	var failure error
	err = p.Engine.Manifest(ctx, p.Target, p.Desired.Namespace, p.Desired.Name, p.Memory.Revision, true,
		func(manifest []*unstructured.Unstructured) {
			objects := p.Memory.ToCompare(manifest, suspects)
			compared = inventory.FromObjects(objects)
			found, failure = drift.Compare(ctx, cluster, release, rules, objects)
			found.Failed = append(found.Failed, driftmemory.Unmatched(manifest, suspects)...)
		})
	if err == nil {
		err = failure
	}
	return compared, found, err
}

func driftRules(spec *addonsv1.DriftDetectionOptions) (*drift.Rules, error) {
	rules := make([]drift.Rule, 0, len(spec.Ignore))
	for _, rule := range spec.Ignore {
		rules = append(rules, drift.Rule{Paths: rule.Paths, Target: releasespec.ObjectSelector(rule.Target)})
	}
	return drift.NewRules(rules)
}

// due schedules the next pass after a delay or earlier. A delay of 0 or less does nothing.
func (p *Pass) due(delay time.Duration) {
	p.RequeueAfter = requeue.Sooner(p.RequeueAfter, delay)
}
