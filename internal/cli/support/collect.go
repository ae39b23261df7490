// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// The archive contains these resources.
var (
	helmOps     = addonsv1.GroupVersion.WithResource("helmops")
	releases    = addonsv1.GroupVersion.WithResource("helmopreleases")
	revisions   = addonsv1.GroupVersion.WithResource("helmoprevisions")
	clusters    = clusterv1.GroupVersion.WithResource("clusters")
	events      = corev1.SchemeGroupVersion.WithResource("events")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	providers   = clusterctlv1.GroupVersion.WithResource("providers")
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
)

// collection holds the content of an archive before it is masked.
type collection struct {
	helmOps, releases, revisions, clusters, events, deployments []*unstructured.Unstructured
	pods                                                        []corev1.Pod

	// logs holds the entries of the logs, by the names of their files.
	logs map[string][]entry

	versions versions

	// named are the HelmOps and HelmOpRevisions whose Secrets are searched for. They are also those of other HelmOps of
	// the namespace, because logs have entries about all HelmOps.
	named []*unstructured.Unstructured

	// secrets are the values of the Secrets to which the objects refer. inline are the values in specs.
	secrets []any
	inline  map[string]any

	// notRead describes the reads that failed. reads counts the reads that succeeded.
	notRead []string
	reads   int

	// mayLeak is true if the archive may have values of Secrets, because reads of Secrets or of the names of Secrets
	// failed.
	mayLeak bool
}

// collector reads the management cluster.
type collector struct {
	*collection
	dynamic  dynamic.Interface
	managers *managers

	// namespace is empty for all namespaces. helmOp is empty for all HelmOps.
	namespace, helmOp string
	logOptions        corev1.PodLogOptions
}

// note records a read that failed.
func (c *collector) note(what string, err error) {
	c.notRead = append(c.notRead, fmt.Sprintf("%s: %v", what, err))
}

// noteSecrets records a read that failed, and whose result is needed to hide the values of Secrets.
func (c *collector) noteSecrets(what string, err error) {
	c.mayLeak = true
	c.note(what, err)
}

// list lists objects. It records a failure.
func (c *collector) list(ctx context.Context, resource schema.GroupVersionResource, namespace string,
) []*unstructured.Unstructured {
	var items []*unstructured.Unstructured
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.dynamic.Resource(resource).Namespace(namespace).List(ctx, o)
	}
	err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		items = append(items, object.(*unstructured.Unstructured))
		return nil
	})
	if err != nil {
		note := c.note
		if resource == helmOps || resource == revisions {
			note = c.noteSecrets
		}
		note("the list of "+resource.GroupResource().String(), kube.Explain(err))
		return items
	}
	c.reads++
	return items
}

// limiterDelay is longer than the rate limit of a client delays one request.
const limiterDelay = time.Second

// cutOff returns an error if the end of the context may be the reason why reads failed. Shortly before the end, the
// client refuses a request that its rate limit would delay beyond the end, although the context has not ended yet.
func (c *collector) cutOff(ctx context.Context) error {
	deadline, isLimited := ctx.Deadline()
	if isLimited && len(c.notRead) > 0 && time.Until(deadline) < limiterDelay {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// collect reads everything. It ends early only if the context ends.
func (c *collector) collect(ctx context.Context) {
	c.collectFleet(ctx)
	c.collectManagers(ctx)
	c.collectVersions(ctx)
	c.collectSecrets(ctx)
}

// collectFleet reads the objects of HelmOp, the Clusters and the Events.
func (c *collector) collectFleet(ctx context.Context) {
	c.helmOps = c.list(ctx, helmOps, c.namespace)
	var others []string
	for _, object := range c.helmOps {
		others = append(others, object.GetName())
	}
	c.releases = c.list(ctx, releases, c.namespace)
	c.revisions = c.list(ctx, revisions, c.namespace)
	c.named = slices.Concat(c.helmOps, c.revisions)
	c.events = slices.DeleteFunc(c.list(ctx, events, c.namespace), func(e *unstructured.Unstructured) bool {
		apiVersion, _, _ := unstructured.NestedString(e.Object, "involvedObject", "apiVersion")
		return !strings.HasPrefix(apiVersion, addonsv1.GroupVersion.Group+"/")
	})
	c.clusters = c.list(ctx, clusters, c.namespace)
	if c.helmOp != "" {
		isOther := func(name string) bool {
			return name != c.helmOp && !fleetview.BelongsTo(name, c.helmOp, others)
		}
		c.helmOps = slices.DeleteFunc(c.helmOps, func(o *unstructured.Unstructured) bool { return o.GetName() != c.helmOp })
		for _, objects := range []*[]*unstructured.Unstructured{&c.releases, &c.revisions} {
			*objects = slices.DeleteFunc(*objects, func(o *unstructured.Unstructured) bool { return isOther(o.GetName()) })
		}
		c.events = slices.DeleteFunc(c.events, func(e *unstructured.Unstructured) bool {
			name, _, _ := unstructured.NestedString(e.Object, "involvedObject", "name")
			return isOther(name)
		})
	}
	c.collectOtherClusters(ctx)
}

// collectOtherClusters reads the Clusters of other namespaces to which releases refer.
func (c *collector) collectOtherClusters(ctx context.Context) {
	known := map[client.ObjectKey]bool{clusterlink.Management: true}
	for _, cluster := range c.clusters {
		known[client.ObjectKeyFromObject(cluster)] = true
	}
	for _, object := range c.releases {
		release := &addonsv1.HelmOpRelease{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, release) != nil {
			continue
		}
		key := apiutil.ClusterKey(release)
		if known[key] || c.namespace == "" || key.Namespace == c.namespace {
			continue
		}
		known[key] = true
		cluster, err := c.dynamic.Resource(clusters).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			c.note("the Cluster "+key.String(), kube.Explain(err))
		default:
			c.clusters = append(c.clusters, cluster)
		}
	}
}

// collectManagers reads the Deployments, the Pods and the logs of the managers.
func (c *collector) collectManagers(ctx context.Context) {
	c.deployments = slices.DeleteFunc(c.list(ctx, deployments, c.managers.namespace),
		func(d *unstructured.Unstructured) bool { return !isManager(d.GetLabels()) })
	var err error
	if c.pods, err = c.managers.pods(ctx); err != nil {
		c.note("the Pods of the manager", err)
		return
	}
	c.reads++
	for i := range c.pods {
		pod := &c.pods[i]
		c.collectLog(ctx, pod, pod.Name+".log", c.logOptions)
		if hasRestarted(pod) {
			previous := c.logOptions
			previous.Previous = true
			c.collectLog(ctx, pod, pod.Name+".previous.log", previous)
		}
	}
}

// hasRestarted reports whether the container of a manager was restarted: then its previous log may contain the reason.
func hasRestarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == containerOf(pod) && s.RestartCount > 0
	})
}

func (c *collector) collectLog(ctx context.Context, pod *corev1.Pod, file string, options corev1.PodLogOptions) {
	var entries []entry
	if err := c.managers.log(ctx, pod, options, func(e entry) { entries = append(entries, e) }); err != nil {
		c.note("the log "+file, err)
	}
	if len(entries) > 0 {
		c.logs[file] = entries
	}
}

// collectSecrets reads the values of the Secrets to which the objects refer, so that they can be found in texts.
func (c *collector) collectSecrets(ctx context.Context) {
	names := map[string]*secretNames{}
	of := func(namespace string) *secretNames {
		if names[namespace] == nil {
			names[namespace] = &secretNames{}
		}
		return names[namespace]
	}
	for _, object := range c.named {
		path := []string{"spec"}
		if object.GetKind() == "HelmOpRevision" {
			path = []string{"spec", "helmOp"}
		}
		fields, _, _ := unstructured.NestedMap(object.Object, path...)
		spec := &addonsv1.HelmOpSpec{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, spec); err != nil {
			c.noteSecrets("the Secrets of "+object.GetKind()+" "+keyOf(object), err)
			continue
		}
		of(object.GetNamespace()).addSpec(spec)
		c.inline[object.GetKind()+" "+keyOf(object)] = valuesIn(spec)
	}
	for i := range c.pods {
		of(c.pods[i].Namespace).addPodSpec(&c.pods[i].Spec)
	}
	for _, namespace := range slices.Sorted(maps.Keys(names)) {
		c.secrets = append(c.secrets, readSecrets(ctx, c.managers, namespace, names[namespace], c.noteSecrets)...)
	}
}
