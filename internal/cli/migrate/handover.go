// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// maxMissing is how many releases an error names that are not adopted.
const maxMissing = 10

// handOver hands the releases of a plan over to HelmOp. An item that fails or waits does not stop the others: all
// HelmOps are created before the command waits, and the command waits for all of them at the same time.
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
// forgets its releases, HelmOp installs the charts after the deletion.
func (m *migration) finish(ctx context.Context, item *migrate.Item, helmOp *addonsv1.HelmOp) error {
	ctx, cancel := kube.Bounded(ctx, m.timeout)
	defer cancel()
	checkOwner := func(ctx context.Context, item *migrate.Item) error { return m.checkOwner(ctx, item, helmOp) }
	steps := []func(context.Context, *migrate.Item) error{m.awaitAdoption, checkOwner, m.detach}
	if _, ok := m.tool.(forgetter); ok {
		steps = []func(context.Context, *migrate.Item) error{
			m.awaitKept, checkOwner, m.checkPaused, m.detach, m.awaitForgotten, m.endPause, m.awaitInstallation, m.complete,
		}
	}
	for _, step := range steps {
		if err := step(ctx, item); err != nil {
			return fmt.Errorf("%s: %w", item.Title(), err)
		}
	}
	return nil
}

// checkHelmOp refuses an item whose HelmOp is foreign or being deleted, before the other tool is paused.
func (m *migration) checkHelmOp(ctx context.Context, item *migrate.Item) error {
	_, err := m.usable(ctx, item)
	return err
}

// usable returns the HelmOp of an item; nil if there is none. A HelmOp that is being deleted is an error.
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

// planned returns the HelmOp that the migration of an item uses: that of an earlier run, which a user may have
// corrected, or the one that the command will create.
func (m *migration) planned(ctx context.Context, item *migrate.Item) (*addonsv1.HelmOp, error) {
	existing, err := m.usable(ctx, item)
	if err != nil || existing != nil {
		return existing, err
	}
	return m.generated(item), nil
}

// checkOwner refuses to detach releases whose HelmOp is not the one that adopted them: they would have no owner.
func (m *migration) checkOwner(ctx context.Context, item *migrate.Item, helmOp *addonsv1.HelmOp) error {
	current, err := m.usable(ctx, item)
	if err == nil && (current == nil || current.UID != helmOp.UID) {
		return fmt.Errorf("HelmOp %s/%s was deleted during the migration; repeat the command", helmOp.Namespace, helmOp.Name)
	}
	return err
}

// check refuses an item with gaps that block it.
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

// create creates the HelmOp. The spec of a HelmOp of an earlier run stays as it is: a user may have corrected it.
func (m *migration) create(ctx context.Context, item *migrate.Item) (*addonsv1.HelmOp, error) {
	existing, err := m.usable(ctx, item)
	if err != nil {
		return nil, err
	}
	if existing != nil {
		return existing, m.updateSource(ctx, item, existing)
	}
	helmOp := m.generated(item)
	if err := m.client.Create(ctx, helmOp, client.FieldOwner(fieldManager)); err != nil {
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

// generated returns the HelmOp of an item as the command creates it.
func (m *migration) generated(item *migrate.Item) *addonsv1.HelmOp {
	helmOp := item.HelmOp.DeepCopy()
	if _, ok := m.tool.(forgetter); ok {
		setStep(helmOp, migrate.StepInstalling, item)
	}
	return helmOp
}

// existing returns the HelmOp that an earlier run created for an item; nil if there is none. A HelmOp of the same name
// that the command did not create for this item is an error.
func (m *migration) existing(ctx context.Context, item *migrate.Item) (*addonsv1.HelmOp, error) {
	helmOp := &addonsv1.HelmOp{}
	err := m.client.Get(ctx, client.ObjectKeyFromObject(item.HelmOp), helmOp)
	switch {
	case apierrors.IsNotFound(err) && !kube.IsKindMissing(err):
		return nil, nil
	case err != nil:
		return nil, kube.Explain(err)
	case helmOp.Annotations[addonsv1.MigratedFromAnnotation] != item.Origin():
		return nil, fmt.Errorf("HelmOp %s/%s exists, and this command did not create it for this object; delete or rename "+
			"one of the two", helmOp.Namespace, helmOp.Name)
	default:
		return helmOp, nil
	}
}

// awaitAdoption waits until HelmOp has adopted all releases of an item.
func (m *migration) awaitAdoption(ctx context.Context, item *migrate.Item) error {
	return m.awaitReleases(ctx, item, releaseWords{"adoption", "adopted",
		"Correct the HelmOp and repeat the command, or return with --undo"})
}

// releaseWords describe what a HelmOp does with releases.
type releaseWords struct {
	// noun and participle are those of the action, and advice is what to do if it fails.
	noun, participle, advice string
}

// awaitReleases waits until HelmOp has all releases of an item.
func (m *migration) awaitReleases(ctx context.Context, item *migrate.Item, words releaseWords) error {
	if len(item.Releases) == 0 {
		return nil
	}
	shown, objects := "", map[client.ObjectKey]*addonsv1.HelmOpRelease{}
	missing := notAdopted(item, objects)
	err := kube.Follow(ctx, m.client, &addonsv1.HelmOpReleaseList{},
		func(change kube.Change[*addonsv1.HelmOpRelease]) (bool, error) {
			change.Apply(&objects)
			missing = notAdopted(item, objects)
			if progress := fmt.Sprint(len(missing)); len(missing) > 0 && progress != shown {
				shown = progress
				m.Note("%s: waiting for the %s of %s", item.HelmOp.Name, words.noun,
					plural.Count(len(missing), "release", "releases"))
			}
			return len(missing) == 0, nil
		}, client.InNamespace(item.HelmOp.Namespace), client.MatchingLabels(apiutil.ChildSelector(item.HelmOp)))
	if err != nil {
		return kube.WithText(fmt.Sprintf("%s not %s: %s. %s:\n  %s", plural.Count(len(missing), "release is", "releases are"),
			words.participle, m.why(err), words.advice, strings.Join(missing[:min(len(missing), maxMissing)], "\n  ")), err)
	}
	m.noteChanged(item, objects)
	m.done("HelmOp %s/%s has %s %s", item.HelmOp.Namespace, item.HelmOp.Name, words.participle,
		plural.Count(len(item.Releases), "release", "releases"))
	return nil
}

// why describes an error of a wait.
func (m *migration) why(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("timed out after %s", m.timeout)
	}
	return err.Error()
}

// byCluster returns the HelmOpReleases of an item by their Clusters.
func byCluster(item *migrate.Item, objects map[client.ObjectKey]*addonsv1.HelmOpRelease,
) map[types.NamespacedName]*addonsv1.HelmOpRelease {
	children := map[types.NamespacedName]*addonsv1.HelmOpRelease{}
	for _, child := range objects {
		// Two long names may share a label value.
		if apiutil.HelmOpOf(child) == item.HelmOp.Name {
			children[apiutil.ClusterKey(child)] = child
		}
	}
	return children
}

// notAdopted returns what is missing for the releases of an item that are not adopted.
func notAdopted(item *migrate.Item, objects map[client.ObjectKey]*addonsv1.HelmOpRelease) []string {
	var missing []string
	children := byCluster(item, objects)
	for i := range item.Releases {
		release := &item.Releases[i]
		if isAdopted, why := migrate.IsAdopted(release, children[release.Cluster]); !isAdopted {
			missing = append(missing, why)
		}
	}
	return missing
}

// noteChanged warns about releases with another Helm revision than before.
func (m *migration) noteChanged(item *migrate.Item, objects map[client.ObjectKey]*addonsv1.HelmOpRelease) {
	children := byCluster(item, objects)
	for i := range item.Releases {
		release := &item.Releases[i]
		if child := children[release.Cluster]; !migrate.IsUnchanged(release, child) {
			m.Note("warning: the release %s/%s in Cluster %s has Helm revision %d; with %s it had %d", release.Namespace,
				release.Name, release.Cluster.Name, child.Status.Release.Revision, m.from, release.Revision)
		}
	}
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
