/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

const kindNamespace = "Namespace"

// clusterNamespacesIndex finds the HelmOps that serve Clusters of other namespaces; its only value is "true".
const clusterNamespacesIndex = "spec.hasClusterNamespaces"

const (
	// grantMemory is how long an access that was granted is taken for granted, and deniedMemory how long one that was not: nothing tells
	// when rights change.
	grantMemory  = 5 * time.Minute
	deniedMemory = time.Minute

	// failedMemory is how long a question that failed is not asked again, so that a namespace with many Clusters costs one, and
	// reviewTimeout how long one may take.
	failedMemory  = 15 * time.Second
	reviewTimeout = 5 * time.Second
)

// eligibleClusters are the Clusters that the selector may choose from. The objects are only to be read.
func (r *helmOpReconciler) eligibleClusters(ctx context.Context, scope *helmOpScope, selector labels.Selector) ([]unstructured.Unstructured, error) {
	helmOp := scope.helmOp
	list := newClusterList()
	options := []client.ListOption{client.UnsafeDisableDeepCopy}
	if helmOp.Spec.ClusterNamespaces == nil {
		options = append(options, client.InNamespace(helmOp.Namespace))
	}
	if err := r.client.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing Clusters: %w", err)
	}
	if helmOp.Spec.ClusterNamespaces == nil {
		return list.Items, nil
	}
	chosen, err := r.chosenNamespaces(ctx, scope)
	if err != nil || scope.isMalformed() {
		return nil, err
	}
	var eligible []unstructured.Unstructured
	for i := range list.Items {
		object := &list.Items[i]
		if !chosen.Has(object.GetNamespace()) {
			continue
		}
		if !selector.Matches(labels.Set(object.GetLabels())) {
			eligible = append(eligible, *object)
			continue
		}
		switch allowed, err := r.guard.allows(ctx, helmOp, client.ObjectKeyFromObject(object)); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			scope.unasked++
			scope.retryWithin(failedMemory)
		case !allowed:
			scope.denied++
			scope.retryWithin(deniedMemory)
		default:
			eligible = append(eligible, *object)
		}
	}
	return eligible, nil
}

// chosenNamespaces are the namespaces whose Clusters the selector may choose from.
func (r *helmOpReconciler) chosenNamespaces(ctx context.Context, scope *helmOpScope) (sets.Set[string], error) {
	selector := scope.selectorOf("spec.clusterNamespaces.namespaceSelector", &scope.helmOp.Spec.ClusterNamespaces.NamespaceSelector)
	if scope.isMalformed() {
		return nil, nil
	}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kindNamespace + "List"))
	if err := r.client.List(ctx, namespaces, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Namespaces: %w", err)
	}
	chosen := sets.New(scope.helmOp.Namespace)
	for i := range namespaces.Items {
		chosen.Insert(namespaces.Items[i].Name)
	}
	return chosen, nil
}

// unlistedCluster is the Cluster of a child that the selector may not choose: it is gone, its namespace is not chosen any more, it
// may not be accessed any more, or it is not known whether it may.
func (r *helmOpReconciler) unlistedCluster(ctx context.Context, scope *helmOpScope, key client.ObjectKey, child *addonsv1.HelmOpRelease) (*clusterScope, error) {
	helmOp := scope.helmOp
	c := &clusterScope{name: titleOf(helmOp.Namespace, key), key: key, child: child}
	object := newCluster()
	err := r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		// One that is there has just come into the shard: the cache is about to show it.
		isThere, err := exists(ctx, r.live, key, partialCluster())
		scope.stale = scope.stale || isThere
		return c, err
	}
	if err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", key, err)
	}
	if key.Namespace == helmOp.Namespace {
		// It came after the list was read.
		scope.stale = true
		return c, nil
	}
	allowed, askErr := r.guard.allows(ctx, helmOp, key)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if c.cluster, err = typedCluster(object); err != nil {
		return nil, err
	}
	c.object = object
	// What was installed with a right that is gone stays, and so does what nobody knows of whether it is.
	switch {
	case askErr != nil:
		c.selected, c.err = true, askErr
	case !allowed:
		c.selected, c.err = true, deniedError(helmOp, key)
	}
	return c, nil
}

// clusterGuard tells whether a HelmOp may serve a Cluster of another namespace. Whoever may get the kubeconfig of a Cluster may do there
// whatever HelmOp could do in their name, so this right is the one that is asked for, of a ServiceAccount of the HelmOp's namespace.
// It is safe for concurrent use.
type clusterGuard struct {
	client client.Client
	now    func() time.Time

	// management are the namespaces whose HelmOps may serve the management cluster.
	management sets.Set[string]

	mu      sync.Mutex
	answers map[guardQuestion]guardAnswer
}

type guardQuestion struct{ user, namespace, secret string }

// guardAnswer counts until a time. Its error is why there was none.
type guardAnswer struct {
	allowed bool
	err     error
	until   time.Time
}

func newClusterGuard(c client.Client, managementNamespaces ...string) *clusterGuard {
	return &clusterGuard{client: c, now: time.Now, management: sets.New(managementNamespaces...), answers: map[guardQuestion]guardAnswer{}}
}

// allows tells whether a HelmOp may serve a Cluster. Those of its own namespace it may.
func (g *clusterGuard) allows(ctx context.Context, helmOp *addonsv1.HelmOp, cluster client.ObjectKey) (bool, error) {
	if cluster == clusterlink.Management {
		// Whether it is wanted is no matter of access: what is not wanted any more is to be uninstalled.
		return g.management.Has(helmOp.Namespace), nil
	}
	if cluster.Namespace == helmOp.Namespace {
		return true, nil
	}
	if helmOp.Spec.ClusterNamespaces == nil {
		return false, nil
	}
	account := helmOp.Spec.ClusterNamespaces.ServiceAccountName
	question := guardQuestion{user: "system:serviceaccount:" + helmOp.Namespace + ":" + account, namespace: cluster.Namespace}
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + helmOp.Namespace, "system:authenticated"}
	// A right to all Secrets of the namespace spares a question for each Cluster.
	for _, name := range []string{"", secret.Name(cluster.Name, secret.Kubeconfig)} {
		question.secret = name
		if allowed, err := g.ask(ctx, question, groups); err != nil || allowed {
			return allowed, err
		}
	}
	return false, nil
}

func (g *clusterGuard) ask(ctx context.Context, question guardQuestion, groups []string) (bool, error) {
	now := g.now()
	g.mu.Lock()
	known, ok := g.answers[question]
	g.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.allowed, known.err
	}
	answer := g.review(ctx, question, groups)
	if ctx.Err() != nil {
		// That says nothing about the API server.
		return false, ctx.Err()
	}
	memory := deniedMemory
	switch {
	case answer.err != nil:
		memory = failedMemory
	case answer.allowed:
		memory = grantMemory
	}
	answer.until = g.now().Add(memory)
	g.mu.Lock()
	defer g.mu.Unlock()
	for other, answer := range g.answers {
		if now.After(answer.until) {
			delete(g.answers, other)
		}
	}
	g.answers[question] = answer
	return answer.allowed, answer.err
}

// review asks the API server.
func (g *clusterGuard) review(ctx context.Context, question guardQuestion, groups []string) guardAnswer {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: question.user, Groups: groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: question.namespace, Verb: "get", Resource: "secrets", Name: question.secret,
		},
	}}
	if err := g.client.Create(ctx, review); err != nil {
		return guardAnswer{err: fmt.Errorf("%w: asking whether %s may get Secrets in namespace %s: %w", errAccessUnknown, question.user, question.namespace, err)}
	}
	return guardAnswer{allowed: review.Status.Allowed}
}

// errAccessUnknown wraps an error of asking whether a HelmOp may serve a Cluster of another namespace.
var errAccessUnknown = errors.New("it is not known whether the Cluster may be accessed")

// errClusterAccessDenied says that a HelmOp may not serve a Cluster of another namespace.
type errClusterAccessDenied struct{ message string }

func (e *errClusterAccessDenied) Error() string { return e.message }

func deniedError(helmOp *addonsv1.HelmOp, cluster client.ObjectKey) error {
	if cluster == clusterlink.Management {
		return &errClusterAccessDenied{fmt.Sprintf("the manager does not let HelmOps of namespace %s into the management cluster: whoever runs it"+
			" can permit that by its flag --management-cluster-namespaces", helmOp.Namespace)}
	}
	if helmOp.Spec.ClusterNamespaces == nil {
		return &errClusterAccessDenied{fmt.Sprintf("Cluster %s is of another namespace, and spec.clusterNamespaces is not set", cluster)}
	}
	return &errClusterAccessDenied{fmt.Sprintf("service account %s/%s may not get Secret %s of namespace %s: grant it that with a Role and a RoleBinding there",
		helmOp.Namespace, helmOp.Spec.ClusterNamespaces.ServiceAccountName, secret.Name(cluster.Name, secret.Kubeconfig), cluster.Namespace)}
}

// requestsForNamespace are the HelmOps that may serve Clusters of a namespace that is not theirs.
func requestsForNamespace(reader client.Reader) func(context.Context, client.Object) []ctrl.Request {
	return func(ctx context.Context, namespace client.Object) []ctrl.Request {
		return requestsForHelmOps(&addonsv1.HelmOpList{Items: roamingHelmOps(ctx, reader, namespace.GetLabels(), "")})
	}
}

// roamingHelmOps are the HelmOps, but for those of one namespace, that choose a namespace with some labels.
func roamingHelmOps(ctx context.Context, reader client.Reader, namespaceLabels map[string]string, but string) []addonsv1.HelmOp {
	helmOps := &addonsv1.HelmOpList{}
	if err := reader.List(ctx, helmOps, client.MatchingFields{clusterNamespacesIndex: "true"}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOps that serve other namespaces")
		return nil
	}
	var roaming []addonsv1.HelmOp
	for _, helmOp := range helmOps.Items {
		selector, err := metav1.LabelSelectorAsSelector(&helmOp.Spec.ClusterNamespaces.NamespaceSelector)
		if err == nil && helmOp.Namespace != but && selector.Matches(labels.Set(namespaceLabels)) {
			roaming = append(roaming, helmOp)
		}
	}
	return roaming
}
