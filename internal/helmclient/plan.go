// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Plan returns what Act would change in the cluster to reach the desired state: it renders the chart as Render does,
// and runs the updates of the action as dry runs, which the API server checks and does not store. It writes nothing,
// runs no hooks and does not wait. Retries, remediation and backoff do not matter. The error is an [*helmerr.Error]; a
// change that the cluster would refuse is no error.
//
// Plan sends one request for the records, one for the record of an upgrade, one for each kind and namespace with three
// objects or more and one for each other object, and one for each object that is new or changes.
func (c *Client) Plan(ctx context.Context, target model.Target, desired model.Desired, policy model.Policy,
	options model.Options, chrt *chart.Chart, values map[string]any,
) (model.Plan, error) {
	observation, err := c.Observe(ctx, target, desired.Namespace, desired.Name)
	if err != nil {
		return model.Plan{}, err
	}
	decision := plannedDecision(observation, desired, policy, time.Now())
	plan := model.Plan{Action: decision.Action, Message: decision.Message}
	if !decision.Action.RendersChart() {
		return plan, nil
	}
	if decision.State == model.StatePending || decision.State == model.StateUninstalling {
		plan.Message = fmt.Sprintf("Helm revision %d is %s: another action runs, or was interrupted.",
			decision.FromRevision, observation.Records[0].Status)
	}
	logs := &helmerr.LogBuffer{Redactor: helmerr.NewRedactor(values, options.SecretValues)}
	s, err := c.openPlan(ctx, target, desired, logs)
	if err != nil {
		return model.Plan{}, newActError(decision.Action, err, nil, logs)
	}
	defer s.records.Release()
	j := job{decision: decision, desired: desired, options: options, chart: chrt, values: values}
	if err := s.plan(ctx, j, observation, &plan); err != nil {
		return model.Plan{}, newActError(decision.Action, err, s, logs)
	}
	for i := range plan.Changes {
		plan.Changes[i].Message = logs.Text(plan.Changes[i].Message)
	}
	return plan, nil
}

// Messages of plans in which HelmOp leaves the release as it is.
const (
	installedOnce = "The release was installed before, and reconcileStrategy is InstallOnce: HelmOp does not change " +
		"the release, unless you request a retry."
	adoptionHeld = "AdoptionWouldChange: HelmOp does not adopt the release while the adoption would change it. Change " +
		"the values or the chart until nothing differs, or set install.adoption to Upgrade."
)

// plannedDecision returns the decision to install or upgrade a release. Unlike decide.Next, it ignores earlier
// failures, because a plan shows a single attempt.
func plannedDecision(obs model.Observation, desired model.Desired, policy model.Policy,
	now time.Time,
) decide.Decision {
	newest, _ := obs.Newest()
	d := decide.Decision{State: obs.State(desired), Action: model.ActionUpgrade, FromRevision: newest.Revision,
		FromID: newest.ID}
	if d.State == model.StateForeign {
		switch next := decide.Next(obs, desired, policy, model.Past{}, now); next.Action {
		case model.ActionRefuse:
			return next
		case model.ActionWait:
			d.Message = next.Message
		}
	}
	switch {
	case d.State == model.StateForeign && release.Status(newest.Status) == release.StatusDeployed:
		d.Action, d.UnchangedOnly = model.ActionAdopt, policy.AdoptUnchangedOnly
	case d.State == model.StateInSync:
		d.Action = model.ActionNone
	case decide.IsInstalledOnce(obs, desired, policy, d.State):
		d.Action, d.Message = model.ActionNone, installedOnce
	case d.State == model.StateAbsent, d.State == model.StateUninstalled:
		d.Action = model.ActionInstall
	}
	return d
}

// openPlan returns a session whose clients of the cluster only read and send dry runs. Its records must only be read.
func (c *Client) openPlan(ctx context.Context, target model.Target, desired model.Desired,
	logs *helmerr.LogBuffer,
) (*session, error) {
	s, err := c.openSession(ctx, target, desired, logs)
	if err != nil {
		return nil, err
	}
	s.cluster = s.dryRunCluster(ctx, desired)
	clients := s.cluster.Clients
	s.config.KubeClient, s.config.RESTClientGetter, s.namespace.Clients = s.cluster, clients, clients
	s.renderer = c.renderer
	return s, nil
}

// dryRunCluster returns a client of the cluster that only reads and sends dry runs.
func (s *session) dryRunCluster(ctx context.Context, desired model.Desired) *apply.Client {
	conn := s.cluster.Clients.Conn
	clients := &connections.Getter{Conn: conn, Config: conn.PlanConfig(ctx)}
	cluster := apply.NewClient(ctx, clients, desired.Namespace, s.logs.Printf)
	cluster.Owner = s.cluster.Owner
	return cluster
}

// plan completes a plan.
func (s *session) plan(ctx context.Context, j job, observation model.Observation, plan *model.Plan) error {
	if j.decision.Action == model.ActionAdopt {
		recorded, differences, err := s.adoptionDifferences(j)
		if err != nil {
			return err
		}
		if len(differences) == 0 {
			plan.Message = fmt.Sprintf("The release is adopted without a change: Helm revision %d stays.", recorded.Version)
			return nil
		}
		plan.Action = model.ActionUpgrade
		if j.decision.UnchangedOnly {
			plan.Action, plan.Message = model.ActionRefuse, adoptionHeld
		}
	}
	isInstall := j.decision.Action == model.ActionInstall
	rendered, err := s.dryRun(ctx, j, nextRelease(j.desired, observation))
	if err != nil {
		return err
	}
	planner := &apply.Planner{
		Client: s.cluster, IsInstall: isInstall, Force: j.options.Upgrade.Force && !isInstall,
		TakeOwnership: j.options.Install.TakeOwnership,
		NewNamespaces: map[string]bool{}, NewKinds: map[schema.GroupKind]bool{},
	}
	crdPolicy, skipsHooks := j.options.Install.CRDs, j.options.Install.DisableHooks
	before := ""
	if !isInstall {
		crdPolicy, skipsHooks = j.options.Upgrade.CRDs, j.options.Upgrade.DisableHooks
		planner.TakeOwnership = j.options.Upgrade.TakeOwnership
		if before, err = s.planPrevious(j, plan); err != nil {
			return err
		}
	}
	s.prepareNamespace(j.desired, j.options.Install, isInstall)
	if err := planner.Namespace(s.namespace); err != nil {
		return err
	}
	for _, kind := range rendered.announced {
		planner.NewKinds[kind.GroupKind()] = true
	}
	if err := crds.Plan(planner, crdPolicy, rendered.crds); err != nil {
		return err
	}
	if err := planner.Manifest(before, rendered.Manifest); err != nil {
		return err
	}
	plan.Changes, plan.Unchanged = planner.Changes, planner.Unchanged
	if !skipsHooks {
		plan.Hooks = plannedHooks(rendered.hooks, j.desired.Namespace, isInstall)
	}
	return nil
}

// planPrevious returns the manifest that an upgrade starts from, and finds the objects that failed revisions left
// behind.
func (s *session) planPrevious(j job, plan *model.Plan) (manifest string, err error) {
	previous, err := s.previous(j.desired.Name)
	if err != nil {
		return "", fmt.Errorf("reading the previous Helm revision: %w", err)
	}
	if manifest, err = s.manifestOf(previous); err != nil {
		return "", err
	}
	plan.PreviousValues = previous.Config
	s.logs.Hide(previous.Config)
	return manifest, s.findLeftovers(j.decision, j.desired)
}

// plannedHooks returns the hooks of an action in the order in which Helm runs them.
func plannedHooks(hooks []*release.Hook, namespace string, isInstall bool) []model.PlannedHook {
	events := []release.HookEvent{release.HookPreUpgrade, release.HookPostUpgrade}
	if isInstall {
		events = []release.HookEvent{release.HookPreInstall, release.HookPostInstall}
	}
	var planned []model.PlannedHook
	for _, event := range events {
		runs := slices.DeleteFunc(slices.Clone(hooks),
			func(hook *release.Hook) bool { return !slices.Contains(hook.Events, event) })
		slices.SortStableFunc(runs, func(a, b *release.Hook) int {
			return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Name, b.Name))
		})
		for _, hook := range runs {
			planned = append(planned, model.PlannedHook{Ref: refOfHook(hook, namespace), Event: string(event)})
		}
	}
	return planned
}

// refOfHook returns the reference to the object of a hook.
func refOfHook(hook *release.Hook, namespace string) inventory.Ref {
	objects, err := apply.DecodeManifest([]byte(hook.Manifest))
	if err != nil || len(objects) == 0 {
		return inventory.Ref{Kind: hook.Kind, Namespace: namespace, Name: hook.Name}
	}
	ref := inventory.Of(objects[0])
	ref.Namespace = cmp.Or(ref.Namespace, namespace)
	return ref
}
