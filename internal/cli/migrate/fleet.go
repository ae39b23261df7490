// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
)

// recordInterval is how often records are read until Fleet has deleted them.
const recordInterval = 5 * time.Second

// fleetTool is Fleet, whose agents in the clusters install the charts of HelmOps.
//
// When a BundleDeployment is deleted, its agent reads the newest record of the release in the cluster. If the record
// has the option keepResources, the agent deletes its records and keeps the objects. Otherwise the agent uninstalls the
// release. So the command sets the option, and deletes the HelmOp of Fleet only when the records in all clusters have
// the option. The agent may act late, for example because it was not running: then it reads the record at that time.
type fleetTool struct {
	// readRecord reads the newest record of a release in a Cluster; nil if there is none.
	readRecord func(ctx context.Context, c *kube.Client, cluster types.NamespacedName, namespace, name string) (
		*migrate.Record, error)

	// interval is how often records are read until Fleet has deleted them.
	interval time.Duration
}

func (fleetTool) kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{migrate.FleetHelmOpKind, migrate.FleetBundleKind, migrate.FleetDeploymentKind,
		migrate.FleetClusterKind, migrate.FleetGroupKind}
}

func (fleetTool) plan(ctx context.Context, c *kube.Client) (*migrate.Plan, error) {
	objects := migrate.FleetObjects{}
	for _, read := range []struct {
		kind schema.GroupVersionKind
		into *[]*unstructured.Unstructured
	}{
		{migrate.FleetHelmOpKind, &objects.HelmOps}, {migrate.FleetClusterKind, &objects.Clusters},
		{migrate.FleetGroupKind, &objects.Groups},
	} {
		var err error
		if *read.into, err = list(ctx, c, read.kind); err != nil {
			return nil, err
		}
	}
	var err error
	// Each cluster has a namespace for its BundleDeployments.
	objects.Deployments, err = listIn(ctx, c, migrate.FleetDeploymentKind, metav1.NamespaceAll,
		client.MatchingLabels{migrate.FleetBundleNamespaceLabel: c.Namespace})
	if err != nil {
		return nil, err
	}
	if objects.Secrets, err = fleetSecrets(ctx, c, objects.HelmOps); err != nil {
		return nil, err
	}
	clusters, err := clusterMetadata(ctx, c)
	if err != nil {
		return nil, err
	}
	if objects.Migrated, err = helmOpsOf(ctx, c); err != nil {
		return nil, err
	}
	plan := migrate.FromFleet(objects, clusters)
	for _, item := range forgottenItems(objects.Migrated, clusters) {
		at := slices.IndexFunc(objects.HelmOps, func(o *unstructured.Unstructured) bool {
			return migrate.ObjectOf(o) == item.From[0]
		})
		switch {
		case at < 0:
			plan.Items = append(plan.Items, item)
		case isDetached(objects.HelmOps[at]):
			// Fleet deletes its BundleDeployments.
			plan.Items = slices.DeleteFunc(plan.Items, func(o migrate.Item) bool { return o.From[0] == item.From[0] })
			plan.Items = append(plan.Items, item)
		}
	}
	return plan, nil
}

// fleetSecrets reads the Secrets with the access to charts.
func fleetSecrets(ctx context.Context, c *kube.Client, helmOps []*unstructured.Unstructured) (
	map[string]migrate.FleetSecret, error,
) {
	secrets := map[string]migrate.FleetSecret{}
	for _, helmOp := range helmOps {
		name := migrate.FleetSecretName(helmOp)
		if _, found := secrets[name]; found || name == "" {
			continue
		}
		secret := &corev1.Secret{}
		err := c.Get(ctx, client.ObjectKey{Namespace: helmOp.GetNamespace(), Name: name}, secret)
		switch {
		case err == nil:
			secrets[name] = migrate.ReadFleetSecret(secret.Data)
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return nil, kube.Explain(err)
		}
	}
	return secrets, nil
}

// forgottenItems returns items for HelmOps whose migration has begun and whose objects in the other tool are deleted.
func forgottenItems(helmOps []*addonsv1.HelmOp, clusters []*metav1.PartialObjectMetadata) []migrate.Item {
	var items []migrate.Item
	for _, helmOp := range helmOps {
		if item, ok := migrate.ContinueFleet(helmOp, clusters); ok {
			items = append(items, item)
		}
	}
	return items
}

// keepResources is the path of the option with which Fleet keeps the objects of releases.
var keepResources = []string{"spec", "keepResources"}

// isKept reports whether a HelmOp of Fleet has the option keepResources.
func isKept(object *unstructured.Unstructured) bool {
	kept, _, _ := unstructured.NestedBool(object.Object, keepResources...)
	return kept
}

// isDetached reports whether the command is deleting a HelmOp of Fleet.
func isDetached(object *unstructured.Unstructured) bool {
	return object.GetDeletionTimestamp() != nil && stepOf(object) == migrate.StepDetaching
}

// pause sets the option keepResources. Fleet then creates a new Helm revision of each release, and the record of the
// revision has the option.
func (fleetTool) pause(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	object, err := edit(ctx, c, item.From[0], func(object *unstructured.Unstructured) error {
		if !isForgotten(item) && !migrate.IsFleetSource(item.HelmOp, object) {
			return errors.New("it has changed since the command read it; repeat the command")
		}
		if err := setPaused(object, item); err != nil || isKept(object) {
			return err
		}
		annotate(object, addonsv1.MigrationKeptAnnotation, "true")
		return unstructured.SetNestedField(object.Object, true, keepResources...)
	})
	if err == nil && object == nil && !isForgotten(item) {
		return fmt.Errorf("%s was deleted since the command read it, and Fleet uninstalls its releases", item.From[0])
	}
	return err
}

func (fleetTool) resume(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	_, err := edit(ctx, c, item.From[0], func(object *unstructured.Unstructured) error {
		return endStep(object, func() {
			if migrate.IsKeptByMigration(object) {
				annotate(object, addonsv1.MigrationKeptAnnotation, "")
				unstructured.RemoveNestedField(object.Object, keepResources...)
			}
		})
	})
	return err
}

// detach deletes the HelmOp of Fleet, and waits until Fleet has deleted the objects that it created from the HelmOp.
func (fleetTool) detach(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	ref := item.From[0]
	if err := checkDeployments(ctx, c, item); err != nil {
		return err
	}
	if _, err := markDetaching(ctx, c, item, ref, isKept); err != nil {
		return err
	}
	if err := deleteKept(ctx, c, item, ref); err != nil {
		return err
	}
	bundle := ref
	bundle.Kind = migrate.FleetBundleKind.Kind
	for _, gone := range []migrate.Object{ref, bundle} {
		if err := awaitGone(ctx, c, gone); err != nil {
			return err
		}
	}
	late := map[client.ObjectKey]bool{}
	return followDeployments(ctx, c, ref, func(deployments deploymentsByKey) (bool, error) {
		for key := range deployments {
			if !isForgotten(item) && !ownsDeployment(item, key) && !late[key] {
				late[key] = true
				c.Note("warning: Fleet has created BundleDeployment %s during its deletion; if its cluster has objects of the "+
					"release, HelmOp does not have them: set the label of the HelmOp on the Cluster", key)
			}
		}
		return len(deployments) == 0, nil
	})
}

// checkDeployments returns an error if Fleet has deployed to a cluster that is not part of the item: the objects there
// would have no owner.
func checkDeployments(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	if isForgotten(item) {
		return nil
	}
	ref := item.From[0]
	deployments, err := listIn(ctx, c, migrate.FleetDeploymentKind, metav1.NamespaceAll, deploymentsOf(ref))
	if err != nil {
		return err
	}
	for _, deployment := range deployments {
		if key := client.ObjectKeyFromObject(deployment); !ownsDeployment(item, key) {
			return errLate(key)
		}
	}
	return nil
}

// ownsDeployment reports whether a BundleDeployment is part of an item.
func ownsDeployment(item *migrate.Item, key client.ObjectKey) bool {
	return slices.ContainsFunc(item.Releases, func(release migrate.Release) bool {
		return release.Owner.Namespace == key.Namespace && release.Owner.Name == key.Name
	})
}

// errLate returns the error for a BundleDeployment that is not part of an item.
func errLate(key client.ObjectKey) error {
	return fmt.Errorf("BundleDeployment %s was created in the meantime; repeat the command", key)
}

// deploymentsOf selects the BundleDeployments of a HelmOp of Fleet.
func deploymentsOf(ref migrate.Object) client.MatchingLabels {
	return client.MatchingLabels{migrate.FleetBundleLabel: ref.Name, migrate.FleetBundleNamespaceLabel: ref.Namespace}
}

// deleteKept deletes a HelmOp of Fleet. It must have the option keepResources, and the spec from which the HelmOp of
// the item was made.
func deleteKept(ctx context.Context, c *kube.Client, item *migrate.Item, ref migrate.Object) error {
	return deleteChecked(ctx, c, ref, func(object *unstructured.Unstructured) error {
		switch {
		case !isKept(object):
			return errors.New("has no spec.keepResources any more, so that its deletion would uninstall its releases; stop " +
				"the client that changes it, and repeat the command")
		// A deletion changes the generation too.
		case object.GetDeletionTimestamp() == nil && !migrate.IsFleetSource(item.HelmOp, object):
			return errors.New("has changed since the HelmOp was made from it; " + makeAgain)
		default:
			return nil
		}
	})
}

// deploymentsByKey are BundleDeployments by their keys.
type deploymentsByKey = map[client.ObjectKey]*unstructured.Unstructured

// followDeployments follows the BundleDeployments of a HelmOp of Fleet until done returns true.
func followDeployments(ctx context.Context, c *kube.Client, ref migrate.Object,
	done func(deploymentsByKey) (bool, error),
) error {
	objects, list := deploymentsByKey{}, &unstructured.UnstructuredList{}
	kind := migrate.FleetDeploymentKind
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return kube.Follow(ctx, c, list, func(change kube.Change[*unstructured.Unstructured]) (bool, error) {
		change.Apply(&objects)
		return done(objects)
	}, deploymentsOf(ref))
}

// awaitKept waits until all BundleDeployments have the option keepResources and are ready with it. Then it reads the
// records in the Clusters, because the agents of Fleet use the option in the records.
func (f fleetTool) awaitKept(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	object := &unstructured.Unstructured{}
	found, err := exists(ctx, c, item.From[0], object)
	if err != nil || !found || isDetached(object) {
		return err
	}
	var missing []string
	err = followDeployments(ctx, c, item.From[0], func(deployments deploymentsByKey) (bool, error) {
		var err error
		missing, err = notKept(item, deployments)
		return len(missing) == 0, err
	})
	if len(missing) > 0 {
		return kube.WithText(fmt.Sprintf("Fleet has not passed on spec.keepResources to all clusters; look at its "+
			"BundleDeployments and repeat the command, or return with --undo:\n  %s",
			strings.Join(missing[:min(len(missing), maxMissing)], "\n  ")), err)
	}
	if err != nil {
		return err
	}
	if missing := f.eachRecord(ctx, c, item, migrate.FleetRecordKeeps); len(missing) > 0 {
		return fmt.Errorf("the agents of Fleet would uninstall releases; repeat the command later, or return with "+
			"--undo:\n  %s", strings.Join(missing[:min(len(missing), maxMissing)], "\n  "))
	}
	return nil
}

// notKept returns texts about releases of an item that Fleet would still uninstall. It returns an error if a
// BundleDeployment is not part of the item.
func notKept(item *migrate.Item, deployments deploymentsByKey) ([]string, error) {
	for key := range deployments {
		if !ownsDeployment(item, key) {
			return nil, errLate(key)
		}
	}
	var missing []string
	for i := range item.Releases {
		owner := item.Releases[i].Owner
		deployment := deployments[client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}]
		if deployment == nil {
			missing = append(missing, owner.String()+" does not exist")
		} else if keeps, why := migrate.FleetKeeps(deployment); !keeps {
			missing = append(missing, owner.String()+": "+why)
		}
	}
	return missing, nil
}

// eachRecord reads the newest records of the releases of an item. It returns what is missing according to a check.
func (f fleetTool) eachRecord(ctx context.Context, c *kube.Client, item *migrate.Item,
	check func(*migrate.Release, *migrate.Record) (ok bool, missing string),
) []string {
	results := make([]string, len(item.Releases))
	var group errgroup.Group
	group.SetLimit(clustersAtOnce)
	for i := range item.Releases {
		group.Go(func() error {
			release := &item.Releases[i]
			ctx, cancel := context.WithTimeout(ctx, recordTimeout)
			defer cancel()
			record, err := f.readRecord(ctx, c, release.Cluster, release.Namespace, release.Name)
			if err != nil {
				results[i] = fmt.Sprintf("Cluster %s: the records of Helm cannot be read: %v", release.Cluster.Name, err)
			} else if ok, missing := check(release, record); !ok {
				results[i] = missing
			}
			return nil
		})
	}
	_ = group.Wait() // The functions return no error: one Cluster does not stop the others.
	return slices.DeleteFunc(results, func(result string) bool { return result == "" })
}

// checkGone implements forgetter.
func (fleetTool) checkGone(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	ref := item.From[0]
	bundle := ref
	bundle.Kind = migrate.FleetBundleKind.Kind
	found, object := "", &unstructured.Unstructured{}
	for _, gone := range []migrate.Object{ref, bundle} {
		if isThere, err := exists(ctx, c, gone, object); err != nil {
			return err
		} else if isThere {
			found = gone.String()
		}
	}
	deployments, err := listIn(ctx, c, migrate.FleetDeploymentKind, metav1.NamespaceAll, deploymentsOf(ref))
	if err != nil {
		return err
	}
	if len(deployments) > 0 && found == "" {
		found = migrate.ObjectOf(deployments[0]).String()
	}
	if found == "" {
		return nil
	}
	return fmt.Errorf("%s exists again: HelmOp and Fleet would both change the releases, so the HelmOp stays "+
		"paused; stop the client that creates the object, set spec.keepResources in %s, wait until Fleet is ready, "+
		"delete it, and repeat the command", found, ref)
}

// awaitForgotten waits until the agents of Fleet have deleted their records. If HelmOp installed the chart earlier, an
// agent could delete a record that HelmOp has read.
func (f fleetTool) awaitForgotten(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	var missing []string
	err := wait.PollUntilContextCancel(ctx, f.interval, true, func(ctx context.Context) (bool, error) {
		missing = f.eachRecord(ctx, c, item, migrate.FleetHasForgotten)
		return len(missing) == 0, nil
	})
	if err != nil {
		return kube.WithText(fmt.Sprintf("Fleet has not forgotten all releases; repeat the command later:\n  %s",
			strings.Join(missing[:min(len(missing), maxMissing)], "\n  ")), err)
	}
	return nil
}
