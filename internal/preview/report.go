// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// State is the result of a preview in a Cluster.
type State string

// The states.
const (
	// StateDiffers means that the release would change the Cluster, or that its action would fail.
	StateDiffers State = "Differs"
	// StateSame means that nothing would change.
	StateSame State = "Same"
	// StateNotReady means that the Cluster cannot have releases yet.
	StateNotReady State = "NotReady"
	// StatePinned means that a user has pinned the Cluster to a HelmOp revision, so a change of the HelmOp does not reach
	// the Cluster.
	StatePinned State = "Pinned"
	// StateFailed means that there is no preview of the Cluster. The message says why.
	StateFailed State = "Failed"

	// StateToDo means that a user must do something before an upgrade of Kubernetes. StateClear means that nothing is to
	// do.
	StateToDo  State = "ToDo"
	StateClear State = "Clear"
)

// states are all states, the most important first.
var states = []State{StateFailed, StateDiffers, StateToDo, StateNotReady, StatePinned, StateSame, StateClear}

// These are further actions of an Outcome.
const (
	// ActionReplace means that the release has another name or namespace, so it is another release: the former release is
	// uninstalled, or stays without an owner, before the new one is installed.
	ActionReplace = "Replace"
	// ActionOrphan means that HelmOp leaves the release in the cluster and no longer manages it.
	ActionOrphan = "Orphan"
)

// Outcome is the preview of a release in a Cluster. It contains secrets only if the caller requested them.
type Outcome struct {
	State State `json:"state"`

	// Action is "Install" or "Upgrade"; "Adopt" for a release of another owner that is adopted without a change; "Refuse";
	// "Replace" for a release with another name or namespace; "Uninstall" or "Orphan" for the release of a Cluster that
	// the HelmOp does not select; or "None" for a release that is in sync or was installed once. It is empty if there is
	// no preview.
	Action string `json:"action,omitempty"`

	// Message is the reason why there is no preview, the reason why the action is refused, or a remark.
	Message string `json:"message,omitempty"`

	// Changes are the objects that would change. Unchanged is the number of the other objects.
	Changes   []Change `json:"changes,omitempty"`
	Unchanged int      `json:"unchanged"`

	// Hooks are the hooks that would run, in their order.
	Hooks []Hook `json:"hooks,omitempty"`
}

// Change is an object that would change.
type Change struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`

	// Change is "Create", "Update", "Recreate" or "Delete".
	Change string `json:"change"`

	// Reason and Message are a remark about the change. Fails is true if the change would fail. The action then fails too.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Fails   bool   `json:"fails,omitempty"`

	// Operations are the differences. For a created or deleted object, there is one operation on the whole object.
	Operations []Operation `json:"operations,omitempty"`

	// Diff is a unified diff of the YAML of the object. In a group of Clusters, the unchanged lines around a difference
	// come from the first Cluster.
	Diff string `json:"diff,omitempty"`
}

// Hook is a hook that would run.
type Hook struct {
	Event     string `json:"event"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Result is the preview of a Cluster.
type Result struct {
	// Cluster is the name of the Cluster. It includes the namespace if the Cluster and the HelmOp are in different
	// namespaces.
	Cluster string

	// Release is the name of the HelmOpRelease; empty if it is not known.
	Release string

	// ApprovalHash is the hash of the release for the digest of an approval. It is empty if the inputs of the release are
	// not known, or if NotCovered is true.
	ApprovalHash string

	// NotCovered is true if the digest of an approval does not cover the Cluster: the Cluster is pinned, not selected, or
	// not initialized yet.
	NotCovered bool

	// Deferred is the reason why the change would wait for maintenance; empty if it would not wait.
	Deferred string

	Outcome
}

// ApprovalDigest returns the digest that a user approves for exactly these releases. The list must contain the results
// of all selected Clusters. The digest is empty if the inputs of a release are not known.
func ApprovalDigest(results []Result) string {
	var hashes []string
	for i := range results {
		switch hash := results[i].ApprovalHash; {
		case results[i].NotCovered:
		case hash == "":
			return ""
		default:
			hashes = append(hashes, hash)
		}
	}
	if len(hashes) == 0 {
		return ""
	}
	return approval.Digest(hashes)
}

// Group is the preview of Clusters with the same outcome. If there are several Clusters, "<cluster>" replaces their
// names in the outcome, and numbers replace the digests of secrets.
type Group struct {
	// Clusters are the Clusters of the group, in the order of the input.
	Clusters []string `json:"clusters"`

	// Hash identifies the outcome. It does not depend on names of Clusters or on secrets. It is the same in each run.
	Hash string `json:"hash"`

	Outcome
}

// contextLines is the number of unchanged lines that a diff shows before and after a difference.
const contextLines = 3

// outcomeOf returns the outcome of a plan. It hides secrets unless masker is nil.
func outcomeOf(plan model.Plan, masker *DiffMasker) (Outcome, error) {
	outcome := Outcome{State: StateSame, Action: string(plan.Action), Message: plan.Message, Unchanged: plan.Unchanged}
	if len(plan.Changes) > 0 || len(plan.Hooks) > 0 || plan.Action == model.ActionRefuse {
		outcome.State = StateDiffers
	}
	for i := range plan.Changes {
		change, err := changeOf(&plan.Changes[i], masker)
		if err != nil {
			return Outcome{}, err
		}
		outcome.Changes = append(outcome.Changes, change)
	}
	for _, hook := range plan.Hooks {
		outcome.Hooks = append(outcome.Hooks,
			Hook{Event: hook.Event, Kind: hook.Ref.Kind, Namespace: hook.Ref.Namespace, Name: hook.Ref.Name})
	}
	return outcome, nil
}

func changeOf(planned *model.Change, masker *DiffMasker) (Change, error) {
	before, after := content(planned.Before), content(planned.After)
	if planned.Kind == model.ChangeUpdate && planned.Reason.IsAsRendered() && before != nil {
		after = overlay(before, after)
	}
	message := planned.Message
	if masker != nil {
		before, after = masker.Pair(before, after)
		message = masker.Text(message)
	}
	change := Change{
		APIVersion: planned.Ref.APIVersion(), Kind: planned.Ref.Kind, Namespace: planned.Ref.Namespace,
		Name: planned.Ref.Name, Change: string(planned.Kind), Reason: string(planned.Reason), Message: message,
		Fails:      planned.Reason.Fails(),
		Operations: operations(nil, nil, mapOrNil(before), mapOrNil(after)),
	}
	var err error
	change.Diff, err = diffOf(planned.Ref, before, after)
	return change, err
}

// diffOf returns a unified diff of the YAML of an object.
func diffOf(ref inventory.Ref, before, after map[string]any) (string, error) {
	texts, names := [2][]string{}, [2]string{"/dev/null", "/dev/null"}
	for i, side := range []struct {
		prefix string
		object map[string]any
	}{{"live/", before}, {"planned/", after}} {
		if side.object == nil {
			continue
		}
		text, err := yaml.Marshal(side.object)
		if err != nil {
			return "", err
		}
		texts[i], names[i] = difflib.SplitLines(strings.TrimSuffix(string(text), "\n")), side.prefix+ref.String()
	}
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: texts[0], B: texts[1], FromFile: names[0],
		ToFile: names[1], Context: contextLines})
}

// GroupResults groups Clusters with the same outcome. The groups are sorted by the importance of the state, then by the
// number of Clusters. GroupResults ignores the names of a Cluster and of its HelmOpRelease, and the digests of secrets.
func GroupResults(results []Result) ([]Group, error) {
	all := make([]named[Outcome], 0, len(results))
	for i := range results {
		all = append(all, named[Outcome]{results[i].Cluster, results[i].Release, &results[i].Outcome})
	}
	found, err := alike(all, withoutDiffs)
	if err != nil {
		return nil, err
	}
	groups := make([]Group, 0, len(found))
	for _, one := range found {
		groups = append(groups, Group{Clusters: one.clusters, Hash: one.hash, Outcome: one.outcome})
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		return compareGroups(a.State, b.State, a.Clusters, b.Clusters)
	})
	return groups, nil
}

// withoutDiffs returns a copy of an outcome without the texts of the diffs. Their context lines contain fields that do
// not change, and that may differ between Clusters.
func withoutDiffs(outcome *Outcome) *Outcome {
	copied := *outcome
	copied.Changes = slices.Clone(outcome.Changes)
	for i := range copied.Changes {
		copied.Changes[i].Diff = ""
	}
	return &copied
}

// Summary describes an outcome in a few words: the numbers of objects of each kind that would be created (+), updated
// (~), re-created (±) and deleted (-), and the changes that would fail (!).
func (o *Outcome) Summary() string {
	switch {
	case o.State == StateSame && o.Action == string(model.ActionNone) && o.Message != "":
		return "no changes: " + strings.Join(strings.Fields(o.Message), " ")
	case o.State == StateSame:
		return "no changes"
	case o.State != StateDiffers, messageOnly[o.Action]:
		return strings.Join(strings.Fields(o.Message), " ")
	}
	counts := map[string]int{}
	var order []string
	count := func(sign, what string) {
		key := sign + "\x00" + what
		if counts[key] == 0 {
			order = append(order, key)
		}
		counts[key]++
	}
	for i := range o.Changes {
		change := &o.Changes[i]
		if change.Fails {
			count("!", fmt.Sprintf("%s (%s)", change.Kind, change.Reason))
			continue
		}
		count(signs[change.Change], change.Kind)
	}
	// Changes that would fail come first.
	slices.SortStableFunc(order, func(a, b string) int {
		return cmp.Compare(strings.IndexByte("!", b[0]), strings.IndexByte("!", a[0]))
	})
	parts := make([]string, 0, len(order)+2)
	if o.Action == ActionReplace {
		parts = append(parts, strings.Join(strings.Fields(o.Message), " "))
	}
	for _, key := range order {
		sign, what, _ := strings.Cut(key, "\x00")
		parts = append(parts, fmt.Sprintf("%s%d %s", sign, counts[key], what))
	}
	if len(o.Hooks) > 0 {
		names := make([]string, 0, len(o.Hooks))
		for _, hook := range o.Hooks {
			names = append(names, fmt.Sprintf("%s %s (%s)", hook.Kind, hook.Name, hook.Event))
		}
		parts = append(parts, "runs "+strings.Join(names, ", "))
	}
	return strings.Join(parts, ", ")
}

// messageOnly are the actions for which a preview has only a message.
var messageOnly = map[string]bool{string(model.ActionRefuse): true, string(model.ActionUninstall): true,
	ActionOrphan: true}

// signs are the signs of changes in a summary.
var signs = map[string]string{
	string(model.ChangeCreate): "+", string(model.ChangeUpdate): "~", string(model.ChangeRecreate): "±",
	string(model.ChangeDelete): "-",
}
