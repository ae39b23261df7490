// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// handOver carries out the migration of the releases of a plan. An item that fails or waits does not stop the others.
// All HelmOps are created before the command waits, and the command waits for all of them at the same time.
func (m *migration) handOver(ctx context.Context, plan *migrate.Plan) error {
	errs := make([]error, len(plan.Items))
	helmOps := make([]*addonsv1.HelmOp, len(plan.Items))
	for i := range plan.Items {
		helmOps[i], errs[i] = m.begin(ctx, &plan.Items[i])
	}
	var group sync.WaitGroup
	for i := range plan.Items {
		if errs[i] == nil {
			group.Go(func() { errs[i] = m.finish(ctx, &plan.Items[i], helmOps[i]) })
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

// begin pauses the other tool, and creates the HelmOp.
func (m *migration) begin(ctx context.Context, item *migrate.Item) (*addonsv1.HelmOp, error) {
	ctx, cancel := kube.Bounded(ctx, m.timeout)
	defer cancel()
	for _, step := range []func(context.Context, *migrate.Item) error{
		m.check, m.checkHelmOp, m.checkPreview, m.pause, m.mark,
	} {
		if err := step(ctx, item); err != nil {
			return nil, fmt.Errorf("%s: %w", item.Title(), err)
		}
	}
	helmOp, err := m.create(ctx, item)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", item.Title(), err)
	}
	return helmOp, nil
}

// finish waits until HelmOp has adopted the releases, and then deletes the objects of the other tool. For a tool that
// stops managing its releases, HelmOp installs the charts after the deletion.
func (m *migration) finish(ctx context.Context, item *migrate.Item, helmOp *addonsv1.HelmOp) error {
	ctx, cancel := kube.Bounded(ctx, m.timeout)
	defer cancel()
	checkOwner := func(ctx context.Context, item *migrate.Item) error { return m.checkOwner(ctx, item, helmOp) }
	steps := []func(context.Context, *migrate.Item) error{m.awaitAdoption, checkOwner, m.detach}
	if _, ok := m.tool.(forgetter); ok {
		steps = []func(context.Context, *migrate.Item) error{
			m.awaitServed, m.awaitKept, checkOwner, m.checkPaused, m.detach, m.awaitForgotten, m.endPause,
			m.awaitInstallation, m.complete,
		}
	}
	for _, step := range steps {
		if err := step(ctx, item); err != nil {
			return fmt.Errorf("%s: %w", item.Title(), err)
		}
	}
	return nil
}

// checkHelmOp returns an error if the HelmOp of an item was not created for the item or is being deleted, or if the API
// server would not store the new HelmOp. It is called before the other tool is paused.
func (m *migration) checkHelmOp(ctx context.Context, item *migrate.Item) error {
	existing, err := m.usable(ctx, item)
	if err != nil || existing != nil {
		return err
	}
	err = m.client.Create(ctx, m.generated(item), client.DryRunAll, client.FieldOwner(kube.SpecFieldManager))
	if err != nil {
		return fmt.Errorf("not migrated: the HelmOp cannot be created; correct the object, or create the HelmOp that "+
			"-o yaml prints with a corrected spec: %w", kube.Explain(err))
	}
	return nil
}

// usable returns the HelmOp of an item; nil if there is none. It returns an error for a HelmOp that is being deleted.
func (m *migration) usable(ctx context.Context, item *migrate.Item) (*addonsv1.HelmOp, error) {
	helmOp, err := m.existing(ctx, item)
	if err == nil && helmOp != nil && helmOp.DeletionTimestamp != nil {
		return nil, fmt.Errorf("HelmOp %s/%s is being deleted; wait until the HelmOp is gone, and repeat the command",
			helmOp.Namespace, helmOp.Name)
	}
	if err == nil && helmOp != nil {
		err = m.checkSource(item, helmOp)
	}
	return helmOp, err
}

// planned returns the HelmOp for the migration of an item. It is the HelmOp of an earlier run, which a user may have
// corrected, or the HelmOp that the command will create.
func (m *migration) planned(ctx context.Context, item *migrate.Item) (*addonsv1.HelmOp, error) {
	existing, err := m.usable(ctx, item)
	if err != nil || existing != nil {
		return existing, err
	}
	return m.generated(item), nil
}

// checkOwner returns an error if the HelmOp did not adopt the releases: after detach, the releases would have no owner.
func (m *migration) checkOwner(ctx context.Context, item *migrate.Item, helmOp *addonsv1.HelmOp) error {
	current, err := m.usable(ctx, item)
	if err == nil && (current == nil || current.UID != helmOp.UID) {
		return fmt.Errorf("HelmOp %s/%s was deleted during the migration; repeat the command", helmOp.Namespace, helmOp.Name)
	}
	return err
}

// check returns an error if gaps block an item.
func (m *migration) check(_ context.Context, item *migrate.Item) error {
	var open []string
	for _, gap := range item.Blocked() {
		open = append(open, gap.String())
	}
	if len(open) > 0 {
		return fmt.Errorf("not migrated: solve this first:\n  %s", strings.Join(open, "\n  "))
	}
	return nil
}

func (m *migration) pause(ctx context.Context, item *migrate.Item) error {
	if err := m.tool.pause(ctx, m.client, item); err != nil {
		return err
	}
	result := "paused"
	if _, ok := m.tool.(forgetter); ok {
		result = "keeps the objects of its releases when it is deleted"
	}
	for _, object := range item.From {
		if !isForgotten(item) {
			m.done("%s %s", object, result)
		}
	}
	return nil
}

func (m *migration) mark(ctx context.Context, item *migrate.Item) error {
	if _, ok := m.tool.(forgetter); ok {
		if err := m.unmarkOthers(ctx, item); err != nil {
			return err
		}
	}
	return editMarks(ctx, m.client, item.Marks, setMark)
}

// create creates the HelmOp. It does not change the spec of a HelmOp of an earlier run: a user may have corrected it.
func (m *migration) create(ctx context.Context, item *migrate.Item) (*addonsv1.HelmOp, error) {
	existing, err := m.usable(ctx, item)
	if err != nil {
		return nil, err
	}
	if existing != nil {
		return existing, m.updateSource(ctx, item, existing)
	}
	helmOp := m.generated(item)
	if err := m.client.Create(ctx, helmOp, client.FieldOwner(kube.SpecFieldManager)); err != nil {
		return nil, kube.Explain(err)
	}
	m.done("HelmOp %s/%s created", helmOp.Namespace, helmOp.Name)
	return helmOp, nil
}

// updateSource stores the number of Clusters with a release in the HelmOp of an earlier run.
func (m *migration) updateSource(ctx context.Context, item *migrate.Item, helmOp *addonsv1.HelmOp) error {
	source := item.HelmOp.Annotations[addonsv1.MigrationSourceAnnotation]
	if helmOp.Annotations[addonsv1.MigrationSourceAnnotation] == source {
		return nil
	}
	return m.editHelmOp(ctx, item, func(object *unstructured.Unstructured) {
		annotate(object, addonsv1.MigrationSourceAnnotation, source)
	})
}

// generated returns the HelmOp of an item in the form in which the command creates it.
func (m *migration) generated(item *migrate.Item) *addonsv1.HelmOp {
	helmOp := item.HelmOp.DeepCopy()
	if _, ok := m.tool.(forgetter); ok {
		setStep(helmOp, migrate.StepInstalling, item)
	}
	return helmOp
}

// existing returns the HelmOp that an earlier run created for an item; nil if there is none. It returns an error for a
// HelmOp of the same name that the command did not create for this item.
func (m *migration) existing(ctx context.Context, item *migrate.Item) (*addonsv1.HelmOp, error) {
	helmOp := &addonsv1.HelmOp{}
	err := m.client.Get(ctx, client.ObjectKeyFromObject(item.HelmOp), helmOp)
	origin := helmOp.Annotations[addonsv1.MigratedFromAnnotation]
	switch {
	case apierrors.IsNotFound(err) && !kube.IsKindMissing(err):
		return nil, nil
	case err != nil:
		return nil, kube.Explain(err)
	case origin == "":
		return nil, m.refuse(ctx, item, helmOp, "did not create it")
	case origin != item.Origin():
		return nil, m.refuse(ctx, item, helmOp, fmt.Sprintf("made it from %s, not from %s", origin, item.Origin()))
	default:
		return helmOp, nil
	}
}

// refuse returns the error for a HelmOp that the command must not use for an item. The error advises a deletion only if
// the HelmOp has no releases in other Clusters: Clusters keep the label that the HelmOp selects, so its replacement
// would select these Clusters too, and would change their releases. A deletion without --cascade=orphan uninstalls the
// releases of the HelmOp.
func (m *migration) refuse(ctx context.Context, item *migrate.Item, helmOp *addonsv1.HelmOp, why string) error {
	children, err := m.childrenOf(ctx, helmOp)
	if err != nil {
		return err
	}
	advice := "to replace it, delete the helmops.addons.cluster.x-k8s.io with --cascade=orphan, which keeps its " +
		"releases, and repeat the command"
	if others := otherClusters(item, helmOp, children); len(others) > 0 {
		advice = fmt.Sprintf("do not delete it, because its replacement would change its %s in other Clusters: %s; to "+
			"migrate this object, create the HelmOp that -o yaml prints with another name, and with a selector of its "+
			"Clusters only",
			plural.Count(len(others), "release", "releases"), plural.Few(others, fleetview.MaxNamedClusters))
	}
	return fmt.Errorf("HelmOp %s/%s exists, and this command %s; %s", helmOp.Namespace, helmOp.Name, why, advice)
}

// childrenOf returns the HelmOpReleases of a HelmOp. It may also return those of a HelmOp with another long name.
func (m *migration) childrenOf(ctx context.Context, helmOp *addonsv1.HelmOp) ([]*addonsv1.HelmOpRelease, error) {
	children, _, err := kube.ListAll[*addonsv1.HelmOpRelease](ctx, m.client, &addonsv1.HelmOpReleaseList{},
		client.InNamespace(helmOp.Namespace), client.MatchingLabels(apiutil.ChildSelector(helmOp)))
	return children, err
}

// otherClusters returns the sorted names of the Clusters with a HelmOpRelease of a HelmOp that are not part of an item.
func otherClusters(item *migrate.Item, helmOp *addonsv1.HelmOp, children []*addonsv1.HelmOpRelease) []string {
	var others []string
	clusters := item.Clusters()
	for _, child := range children {
		// Two long names may share a label value.
		if key := apiutil.ClusterKey(child); apiutil.HelmOpOf(child) == helmOp.Name && !slices.Contains(clusters, key) {
			others = append(others, key.Name)
		}
	}
	slices.Sort(others)
	return others
}

func (m *migration) detach(ctx context.Context, item *migrate.Item) error {
	if err := m.tool.detach(ctx, m.client, item); err != nil {
		return err
	}
	for _, object := range item.From {
		if !isForgotten(item) {
			m.done("%s deleted; its releases stay installed", object)
		}
	}
	return nil
}

// done prints the result of a step.
func (m *migration) done(format string, args ...any) {
	_, _ = fmt.Fprintf(m.Streams.Out, format+"\n", args...)
}
