// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Plan returns the changes that Act would make in the cluster to reach the desired state. It renders the chart as
// Render does, and sends the updates of the action as dry runs. The API server checks a dry run and does not store it.
// Plan writes nothing, runs no hooks and does not wait. Retries, remediation and backoff have no influence on it: Plan
// uses only WasOurs of past. The error is an [*helmerr.Error]. A change that the cluster would refuse is not an error.
//
// Plan sends one request for the records, and one for the record of an upgrade. It sends one request for each kind and
// namespace with three objects or more, and one for each other object. It sends one more request for each object that
// is new or changes.
func (e *Engine) Plan(ctx context.Context, target model.Target, desired model.Desired, policy model.Policy,
	past model.Past, options model.Options, chrt *chart.Chart, values map[string]any,
) (model.Plan, error) {
	observation, err := e.observe(ctx, target, desired.Namespace, desired.Name)
	if err != nil {
		return model.Plan{}, err
	}
	decision := plannedDecision(observation, desired, policy, past, time.Now())
	plan := model.Plan{Action: decision.Action, Message: decision.Message}
	if !decision.Action.RendersChart() {
		return plan, nil
	}
	if decision.State == model.StatePending || decision.State == model.StateUninstalling {
		plan.Message = fmt.Sprintf("Helm revision %d is %s: another action runs, or was interrupted.",
			decision.FromRevision, observation.Records[0].Status)
	}
	logs := &helmerr.LogBuffer{Redactor: helmerr.NewRedactor(values, options.SecretValues)}
	j := session.Job{Decision: decision, Desired: desired, Options: options, Chart: chrt, Values: values}
	empty := plan
	err = session.Use(ctx, e.memory, actionmemory.Waits{}, e.open, target, desired, logs, func(s *session.Session) error {
		plan = empty
		return reader{s}.asPlanner(desired).plan(j, observation, &plan)
	})
	if err != nil {
		return model.Plan{}, helmerr.Acting(decision.Action, err, nil, logs)
	}
	for i := range plan.Changes {
		plan.Changes[i].Message = logs.Text(plan.Changes[i].Message)
	}
	return plan, nil
}

// Messages of plans in which HelmOp does not change the release.
const (
	installedOnce = "The release was installed before, and reconcileStrategy is InstallOnce: HelmOp does not change " +
		"the release, unless you request a retry."
	adoptionHeld = "AdoptionWouldChange: HelmOp does not adopt the release while the adoption would change it. Change " +
		"the values or the chart until nothing differs, or set install.adoption to Upgrade."
)

// plannedDecision returns the decision to install or upgrade a release. Unlike decide.Next, it ignores earlier
// failures, because a plan shows a single attempt.
func plannedDecision(obs model.Observation, desired model.Desired, policy model.Policy, past model.Past,
	now time.Time,
) decide.Decision {
	newest, _ := obs.Newest()
	d := decide.Decision{State: obs.State(desired), Action: model.ActionUpgrade, FromRevision: newest.Revision,
		FromID: newest.ID, FromUID: newest.UID}
	if d.State == model.StateForeign {
		switch next := decide.Next(obs, desired, policy, model.Past{WasOurs: past.WasOurs}, now); next.Action {
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

// asPlanner changes the reader so that its clients of the cluster only read and send dry runs. The caller must not
// write records with it.
func (s reader) asPlanner(desired model.Desired) reader {
	s.Cluster = s.dryRunCluster(desired)
	clients := s.Cluster.Clients
	s.Config.KubeClient, s.Config.RESTClientGetter, s.Namespace.Clients = s.Cluster, clients, clients
	return s
}

// dryRunCluster returns a client of the cluster that only reads and sends dry runs.
func (s reader) dryRunCluster(desired model.Desired) *apply.Client {
	conn := s.Cluster.Clients.Conn
	clients := &connections.Getter{Conn: conn, Config: conn.PlanConfig(s.Ctx)}
	cluster := apply.NewClient(s.Ctx, clients, desired.Namespace, s.Logs.Printf)
	cluster.Owner, cluster.Memory, cluster.Seen = s.Cluster.Owner, s.Memory, s.Cluster.Seen
	return cluster
}

// plan adds the changes to a plan.
func (s reader) plan(j session.Job, observation model.Observation, plan *model.Plan) error {
	if j.Decision.Action == model.ActionAdopt {
		recorded, differences, err := s.adoptionDifferences(j)
		if err != nil {
			return err
		}
		if len(differences) == 0 {
			plan.Message = fmt.Sprintf("The release is adopted without a change: Helm revision %d stays.", recorded.Version)
			return nil
		}
		plan.Action = model.ActionUpgrade
		if j.Decision.UnchangedOnly {
			plan.Action, plan.Message = model.ActionRefuse, adoptionHeld
		}
	}
	isInstall := j.Decision.Action == model.ActionInstall
	rendered, err := s.render(j, nextRelease(j.Desired, observation))
	if err != nil {
		return err
	}
	s.Cluster.KeepsCRD = crds.InFolder(j.Chart)
	planner := &planner{
		Client: s.Cluster, IsInstall: isInstall, Force: j.Options.Upgrade.Force && !isInstall,
		TakeOwnership: j.Options.Install.TakeOwnership,
		NewNamespaces: map[string]bool{}, NewKinds: map[schema.GroupKind]bool{},
	}
	crdPolicy, skipsHooks := j.Options.Install.CRDs, j.Options.Install.DisableHooks
	before := ""
	if !isInstall {
		crdPolicy, skipsHooks = j.Options.Upgrade.CRDs, j.Options.Upgrade.DisableHooks
		planner.TakeOwnership = j.Options.Upgrade.TakeOwnership
		if before, err = s.planPrevious(j, plan); err != nil {
			return err
		}
	}
	s.PrepareNamespace(j.Desired, j.Options.Install, isInstall)
	if err := planner.Namespace(s.Namespace); err != nil {
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
		plan.Hooks = s.plannedHooks(rendered.hooks, j.Desired.Namespace, isInstall)
	}
	return nil
}

// planPrevious returns the manifest of the revision that an upgrade starts from. It also finds the objects of failed
// revisions that are still in the cluster, and determines how the upgrade treats objects of other owners.
func (s reader) planPrevious(j session.Job, plan *model.Plan) (manifest string, err error) {
	previous, err := s.Previous(j.Desired.Name)
	if err != nil {
		return "", fmt.Errorf("reading the previous Helm revision: %w", err)
	}
	if manifest, err = s.ManifestOf(previous); err != nil {
		return "", err
	}
	plan.PreviousValues = previous.Config
	s.HideFormer(previous, j.Values)
	if err := s.FindLeftovers(j.Decision, j.Desired); err != nil {
		return "", err
	}
	s.GuardUnowned(&j.Options)
	return manifest, nil
}

// PreviousValues returns the values of the Helm revision that an upgrade of a release starts from. They are nil if the
// cluster has no record of the release. The error is an [*helmerr.Error].
func (e *Engine) PreviousValues(ctx context.Context, target model.Target, namespace, name string) (map[string]any,
	error,
) {
	return session.Read(ctx, e.memory, e.open, target, namespace, name, func(s *session.Session) (map[string]any, error) {
		previous, err := s.Previous(name)
		switch {
		case errors.Is(err, driver.ErrReleaseNotFound):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("reading the previous Helm revision: %w", err)
		case previous.Config == nil:
			return map[string]any{}, nil
		default:
			return previous.Config, nil
		}
	})
}

// plannedHooks returns the hooks of an action in the order in which Helm runs them.
func (s reader) plannedHooks(hooks []*release.Hook, namespace string, isInstall bool) []model.PlannedHook {
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
			planned = append(planned, model.PlannedHook{Ref: s.refOfHook(hook, namespace), Event: string(event)})
		}
	}
	return planned
}

// refOfHook returns the reference to the object of a hook.
func (s reader) refOfHook(hook *release.Hook, namespace string) inventory.Ref {
	objects, err := manifests.Decode(s.Memory, hook.Manifest)
	if err != nil || len(objects) == 0 {
		return inventory.Ref{Kind: hook.Kind, Namespace: namespace, Name: hook.Name}
	}
	ref := inventory.Of(objects[0])
	ref.Namespace = cmp.Or(ref.Namespace, namespace)
	return ref
}
