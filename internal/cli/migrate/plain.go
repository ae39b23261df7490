// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/safeconfig"
)

// clustersAtOnce is the number of Clusters whose records are read at the same time.
const clustersAtOnce = 16

// recordTimeout is the timeout for reading the records of a Cluster.
const recordTimeout = 30 * time.Second

// plain is the helm command: a release in each Cluster, and no object in the management cluster.
type plain struct {
	// release is "namespace/name".
	release string

	// source is the location of the chart: its URL, Chart, SecretRef and CertSecretRef.
	source addonsv1.ArtifactSource

	// timeout is for each Cluster.
	timeout time.Duration
}

func (plain) kinds() []schema.GroupVersionKind { return nil }

func (p plain) plan(ctx context.Context, c *kube.Client) (*migrate.Plan, error) {
	namespace, name, ok := strings.Cut(p.release, "/")
	scheme, _, _ := strings.Cut(p.source.URL, "://")
	if !ok || namespace == "" || name == "" || !slices.Contains([]string{"oci", "https", "http"}, scheme) {
		return nil, kube.Usagef("--from helm needs --release NAMESPACE/NAME and --chart-url, which is " +
			"oci://HOST/REPOSITORY or the https:// address of a chart repository")
	}
	if scheme == "oci" && p.source.Chart != "" {
		return nil, kube.Usagef("--chart is for chart repositories; end --chart-url with the name of the chart")
	}
	objects := migrate.HelmObjects{}
	var err error
	if objects.HelmOps, err = helmOpsOf(ctx, c); err != nil {
		return nil, err
	}
	if objects.Clusters, err = clusterMetadata(ctx, c); err != nil {
		return nil, err
	}
	if objects.Records, err = p.records(ctx, c, objects.Clusters, namespace, name); err != nil {
		return nil, err
	}
	return migrate.FromHelm(name, c.Namespace, p.source, objects), nil
}

// records reads the newest records of a release in Clusters. It returns an error if it finds no release, and cannot
// read the records of all Clusters.
func (p plain) records(ctx context.Context, c *kube.Client, clusters []*metav1.PartialObjectMetadata,
	namespace, name string,
) ([]*migrate.Record, error) {
	records := make([]*migrate.Record, len(clusters))
	errs := make([]error, len(clusters))
	var group errgroup.Group
	group.SetLimit(clustersAtOnce)
	for i, cluster := range clusters {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, p.timeout)
			defer cancel()
			records[i], errs[i] = recordIn(ctx, c, client.ObjectKeyFromObject(cluster), namespace, name)
			return nil
		})
	}
	_ = group.Wait() // The functions return no error: one Cluster does not stop the others.
	var found []*migrate.Record
	failed := 0
	for i, record := range records {
		switch {
		case errs[i] != nil:
			failed++
			c.Note("warning: Cluster %s is skipped: %v", clusters[i].Name, errs[i])
		case record == nil:
		case record.IsUninstalled():
			c.Note("Cluster %s is skipped: its release is %s, and HelmOp would install it again", clusters[i].Name,
				record.Status)
		default:
			found = append(found, record)
		}
	}
	if len(found) == 0 && failed > 0 {
		return nil, fmt.Errorf("no Cluster that answers has the release %s, and %s skipped; see the warnings", p.release,
			plural.Count(failed, "Cluster was", "Clusters were"))
	}
	return found, nil
}

// recordIn reads the newest record of a release in a Cluster; nil if there is no release. It reads the content of this
// record only: a release can have many records of a megabyte each.
func recordIn(ctx context.Context, c *kube.Client, cluster types.NamespacedName, namespace, name string) (
	*migrate.Record, error,
) {
	// A tenant may have written the kubeconfig, and building a configuration of it would already read files.
	data, err := kubeconfig.FromSecret(ctx, clusterview.SafeKubeconfigs(c), cluster)
	if err != nil {
		return nil, fmt.Errorf("read its kubeconfig: %w", kube.Explain(err))
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, fmt.Errorf("read its kubeconfig: %w", err)
	}
	if refusal := safeconfig.Refusal(config); refusal != "" {
		return nil, errors.New(refusal)
	}
	// Clients with discovery would ignore the context during discovery.
	secrets, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ofMetadata, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	for {
		newest, err := newestRecord(ctx, ofMetadata, namespace, name)
		if err != nil || newest == "" {
			return nil, err
		}
		secret, err := secrets.Secrets(namespace).Get(ctx, newest, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // The record was deleted in the meantime.
		}
		if err != nil {
			return nil, err
		}
		record, err := migrate.ReadRecord(cluster, secret.Data["release"])
		if err != nil {
			return nil, fmt.Errorf("record %s/%s: %w", namespace, newest, err)
		}
		return record, nil
	}
}

// newestRecord returns the name of the Secret with the newest record of a release; empty if there is none.
func newestRecord(ctx context.Context, c metadata.Interface, namespace, name string) (string, error) {
	secrets, err := c.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"owner": "helm", "name": name}).String()})
	if err != nil {
		return "", err
	}
	newest, highest := "", 0
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		revision, err := strconv.Atoi(secret.Labels["version"])
		if err != nil {
			return "", fmt.Errorf("record %s/%s: the label version: %w", namespace, secret.Name, err)
		}
		if newest == "" || revision > highest {
			newest, highest = secret.Name, revision
		}
	}
	return newest, nil
}

// pause does nothing: only users change the release.
func (plain) pause(context.Context, *kube.Client, *migrate.Item) error { return nil }

func (plain) resume(context.Context, *kube.Client, *migrate.Item) error { return nil }

// detach does nothing: there are no objects of another tool.
func (plain) detach(context.Context, *kube.Client, *migrate.Item) error { return nil }
