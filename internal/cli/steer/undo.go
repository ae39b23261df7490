// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisions"
)

func newUndo(o kube.Options) *cobra.Command {
	s := newSteer(o)
	var number int64
	cmd := s.command("undo HELMOP", "Restore the spec of an earlier HelmOp revision",
		`Restore the spec of an earlier HelmOp revision. Without --to-revision, the command restores the newest good revision
before the current one. If the present spec has no HelmOp revision, for example because it cannot be rendered, the
command restores the newest good revision. The change is rolled out as a new HelmOp revision, with waves and limits.

The command writes the fields that shape releases: release, values, options, overrides and, of the source, what is
installed. All other fields stay as they are: selectors, credentials, required signatures, spec.rollout, dependsOn,
deletionPolicy and pauses. References are pinned to the digests of the revision, because a tag or a range may refer to
another artifact now. If a GitOps tool manages the HelmOp, change its repository instead.`,
		`  kubectl helmop history calico
  kubectl helmop rollout undo calico --to-revision 6`, 1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			return s.undo(ctx, c, name, number)
		})
	cmd.Flags().Int64Var(&number, "to-revision", 0,
		"The HelmOp revision to restore (default: the newest good one before the current one).")
	return cmd
}

func (s *steer) undo(ctx context.Context, c *kube.Client, name string, number int64) (waiter, error) {
	changed := &addonsv1.HelmOp{}
	err := kube.RetryOnConflict(func() error {
		// The object is unstructured, so that fields that this program does not know are kept.
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))
		if err := c.ReadHelmOp(ctx, name, object); err != nil {
			return err
		}
		helmOp := &addonsv1.HelmOp{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, helmOp); err != nil {
			return err
		}
		all, err := c.Revisions(ctx, helmOp)
		if err != nil {
			return err
		}
		revisions.Complete(all)
		to, err := undoTo(helmOp, all, number)
		if err != nil {
			return err
		}
		if err := checkKnown(ctx, c, helmOp, to); err != nil {
			return err
		}
		pinned, moving := pin(&to.Spec)
		if err := restore(object.Object, pinned); err != nil {
			return err
		}
		// This is an update and not a merge patch: null is a valid value in spec.values, but a merge patch cannot write it.
		options := []client.UpdateOption{client.FieldOwner(kube.SpecFieldManager)}
		if s.dryRun == kube.DryRunServer {
			options = append(options, client.DryRunAll)
		}
		if err := c.Update(ctx, object, options...); err != nil {
			return err
		}
		for _, field := range moving {
			s.Note("warning: HelmOp revision %d has no artifact for spec.%s, so the reference is restored without a digest "+
				"and may "+
				"refer to another artifact now", to.Spec.Number, field)
		}
		s.done(helmOp, "helmop", fmt.Sprintf("spec of HelmOp revision %d restored", to.Spec.Number))
		changed.Generation = object.GetGeneration()
		return nil
	})
	if err != nil {
		return nil, kube.Explain(err)
	}
	return s.observer(c, name).waiter(isObserved(changed)), nil
}

// checkKnown returns an error if a revision, or a revision that stores fields for it, has a field that this program
// does not know: a newer manager has created it, and the restored spec would lack the field.
func checkKnown(ctx context.Context, c client.Reader, helmOp *addonsv1.HelmOp, to *addonsv1.HelmOpRevision) error {
	for _, number := range append(revisions.Holders(&to.Spec), to.Spec.Number) {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(addonsv1.GroupVersion.WithKind("HelmOpRevision"))
		key := client.ObjectKey{Namespace: helmOp.Namespace, Name: apiutil.RevisionName(helmOp.Name, number)}
		if err := c.Get(ctx, key, object); err != nil {
			return err
		}
		spec := map[string]any{"spec": object.Object["spec"]}
		err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec, &addonsv1.HelmOpRevision{}, true)
		if runtime.IsStrictDecodingError(err) {
			return refuse(helmOp, "HelmOp revision %d has fields that this program does not know, so it cannot restore them "+
				"(%v); use kubectl helmop of the manager's version", number, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// undoTo returns the revision that "rollout undo" restores: the requested revision. If wanted is 0, the result is the
// newest good revision before the current revision. revisions are complete, and the newest is the last.
func undoTo(helmOp *addonsv1.HelmOp, revisions []*addonsv1.HelmOpRevision, wanted int64) (
	*addonsv1.HelmOpRevision, error,
) {
	if err := refuseDeleting(helmOp); err != nil {
		return nil, err
	}
	if len(revisions) == 0 {
		return nil, refuse(helmOp, "there are no HelmOp revisions yet")
	}
	current, err := currentRevision(helmOp, revisions)
	if err != nil {
		return nil, err
	}
	var have []string
	var found *addonsv1.HelmOpRevision
	for _, revision := range revisions {
		number := revision.Spec.Number
		have = append(have, strconv.FormatInt(number, 10))
		if number == wanted || wanted == 0 && number != current && revision.Status.Good {
			found = revision
		}
	}
	switch {
	case found == nil && wanted == 0 && current == 0:
		return nil, refuse(helmOp, "there is no last known good revision; choose one of %s with --to-revision",
			strings.Join(have, ", "))
	case found == nil && wanted == 0:
		return nil, refuse(helmOp, "there is no last known good revision before HelmOp revision %d; choose one of %s with "+
			"--to-revision",
			current, strings.Join(have, ", "))
	case found == nil:
		return nil, refuse(helmOp, "there is no HelmOp revision %d; the existing ones are %s", wanted,
			strings.Join(have, ", "))
	case found.Spec.Number == current:
		return nil, refuse(helmOp, "HelmOp revision %d is the current one", current)
	case !isComplete(found, revisions):
		return nil, refuse(helmOp, "HelmOp revision %d cannot be restored: the HelmOp revision that stores its large fields "+
			"was deleted; "+
			"choose one of %s with --to-revision", found.Spec.Number, strings.Join(have, ", "))
	}
	return found, nil
}

// currentRevision returns the number of the newest revision if the current spec has the same restored fields as this
// revision. It returns 0 if the spec changed but the change created no revision.
func currentRevision(helmOp *addonsv1.HelmOp, revisions []*addonsv1.HelmOpRevision) (int64, error) {
	newest := revisions[len(revisions)-1]
	if !isComplete(newest, revisions) {
		// The fields of the revision are not complete.
		return newest.Spec.Number, nil
	}
	now, err := shapeOf(&helmOp.Spec)
	if err != nil {
		return 0, err
	}
	then, err := shapeOf(&newest.Spec.HelmOp)
	if err != nil || !equality.Semantic.DeepEqual(now, then) {
		return 0, err
	}
	return newest.Spec.Number, nil
}

// isComplete reports whether all revisions exist that store fields for a revision.
func isComplete(revision *addonsv1.HelmOpRevision, all []*addonsv1.HelmOpRevision) bool {
	for _, holder := range revisions.Holders(&revision.Spec) {
		if !slices.ContainsFunc(all, func(r *addonsv1.HelmOpRevision) bool { return r.Spec.Number == holder }) {
			return false
		}
	}
	return true
}

// restoredFields are the fields of the spec that affect releases. The other fields are kept: they select Clusters and
// control the rollout, the deletion and the storage.
var restoredFields = []string{
	"release", "values", "valuesTemplate", "valuesFrom", "templateDelimiters", "postRender", "install", "upgrade",
	"rollback", "uninstall", "test", "health", "driftDetection", "impersonateServiceAccountName", "overrides",
	"refsByKubernetesVersion", "reconcileStrategy",
}

// restoredSourceFields are the fields of the source that select the artifact. The undo keeps the other fields, which
// configure the access to the registry and the policy for signatures.
var restoredSourceFields = []string{"url", "chart", "ref", "insecure", "format", "path", "templating", "layerSelector"}

// shapeOf returns the fields of a spec that affect releases.
func shapeOf(spec *addonsv1.HelmOpSpec) (map[string]any, error) {
	shape := map[string]any{}
	return shape, restore(shape, spec)
}

// restore copies the fields that affect releases from a spec to an object.
func restore(object map[string]any, from *addonsv1.HelmOpSpec) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return err
	}
	for _, field := range restoredFields {
		if err := copyField(object, content, "spec", field); err != nil {
			return err
		}
	}
	for _, field := range restoredSourceFields {
		if err := copyField(object, content, "spec", "source", field); err != nil {
			return err
		}
	}
	return nil
}

// copyField copies a field of a spec to an object. path is the path of the field in the object.
func copyField(object, spec map[string]any, path ...string) error {
	value, ok, err := unstructured.NestedFieldCopy(spec, path[1:]...)
	if err != nil || ok {
		return errors.Join(err, unstructured.SetNestedField(object, value, path...))
	}
	unstructured.RemoveNestedField(object, path...)
	return nil
}

// pin returns the spec of a revision with the digests that the revision had as references, because tags and ranges may
// resolve to other digests now. moving are the fields with references for which the revision has no digest.
func pin(revision *addonsv1.HelmOpRevisionSpec) (pinned *addonsv1.HelmOpSpec, moving []string) {
	pinned = revision.HelmOp.DeepCopy()
	source := pinned.Source.Ref
	pinRef := func(ref *addonsv1.ArtifactReference, field string) {
		artifact := revision.Artifact
		if *ref != source {
			artifact = nil
			for i := range revision.Artifacts {
				if revision.Artifacts[i].Reference == *ref {
					artifact = &revision.Artifacts[i].ResolvedArtifact
				}
			}
		}
		switch {
		case ref.Digest != "":
		case artifact == nil:
			moving = append(moving, field)
		default:
			*ref = addonsv1.ArtifactReference{Digest: artifact.Digest}
		}
	}
	for i := range pinned.Overrides {
		if override := &pinned.Overrides[i]; override.Ref != nil {
			pinRef(override.Ref, fmt.Sprintf("overrides[%s].ref", override.Name))
		}
	}
	for i := range pinned.RefsByKubernetesVersion {
		pinRef(&pinned.RefsByKubernetesVersion[i].Ref, fmt.Sprintf("refsByKubernetesVersion[%d].ref", i))
	}
	pinRef(&pinned.Source.Ref, "source.ref")
	return pinned, moving
}
