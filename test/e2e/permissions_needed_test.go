// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/permissions"
)

const (
	// permissionsEnv is the environment variable with which the test starts a manager for most of its permissions. This
	// takes minutes.
	permissionsEnv = "HELMOP_PERMISSIONS"

	// missedWithin is how long a manager may work without a permission until it reports that the permission is missing.
	missedWithin = time.Minute
)

var (
	// finalizers is the permission that an admission plugin requires. The plugin does not name the permission.
	finalizers = permissions.Permission{Group: addonsv1.GroupVersion.Group, Resource: "helmops/finalizers", Verb: "update"}
	// blockedOwner is the message of the plugin.
	blockedOwner = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"

	// getRevisions is the permission to read a revision that the cache does not have.
	getRevisions = permissions.Permission{Group: addonsv1.GroupVersion.Group, Resource: "helmoprevisions", Verb: "get"}

	// reviewOwn is the permission to review the manager's own permissions. listInfrastructure is a permission that the
	// manager reviews.
	reviewOwn = permissions.Permission{Group: authorizationv1.GroupName, Resource: "selfsubjectaccessreviews",
		Verb: "create"}
	listInfrastructure = permissions.Permission{Group: clusterv1.GroupVersionInfrastructure.Group, Resource: "*",
		Verb: "list"}

	// unread and unreadable are the manager's own messages about objects that HelmOps refer to, and about kinds of other
	// providers.
	unread     = regexp.MustCompile(`(ConfigMap|Secret|ServiceAccount) [^ ]+: the manager may not read it`)
	unreadable = regexp.MustCompile(`the manager may not (list|watch) ([a-z]+)\.([a-z0-9.-]*[a-z0-9])`)
)

// rights holds the roles of the manager. The test removes single permissions from these roles.
type rights struct {
	granted []permissions.Permission // of all roles
	cluster []rbacv1.ClusterRole
	own     []rbacv1.Role // in the manager's namespace

	helmOp, former *addonsv1.HelmOp // of this round and of the round before
	// steady gets other values in each round, and still none.
	steady, still *addonsv1.HelmOp
	workload      *workload
	manager       *environment.Manager
	round         int
	// other is a namespace without Clusters, whose HelmOps may install in the management cluster.
	other *scenario
}

// TestEachPermissionIsNeeded removes each permission from the manager's roles, one at a time. It waits until the
// manager reports the permission as missing, in a condition or in its log. No other permission may be missing then.
// onlyUsedPermissions checks the opposite: it finds permissions that are never used.
//
// If a start of the manager needs the permission, a manager is started without it. Other permissions are removed from a
// running manager, and then restored. The manager must then finish its work without help.
func TestEachPermissionIsNeeded(t *testing.T) {
	if os.Getenv(permissionsEnv) == "" {
		t.Skipf("to start a manager for each permission takes minutes, and %s is not set; see `make test-permissions`",
			permissionsEnv)
	}
	begin(t)
	env := ownEnvironment(t, environment.Options{NoManager: true, APIServerArgs: []string{
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		// Clients list only if the server does not stream the existing objects.
		"--feature-gates=WatchList=false",
	}})
	s := newScenarioIn(t, env)
	r := &rights{other: newScenarioIn(t, env)}
	t.Cleanup(func() { r.serveAgain(s) })
	r.read(s)
	s.Expect(len(r.granted)).To(gomega.BeNumerically(">", 40))
	s.step("with all permissions, nothing is missing", r.prepare)
	for _, p := range r.granted {
		if !neededAtStart(p) {
			t.Run(p.String(), func(t *testing.T) { r.takeWhileRunning(s.in(t), p) })
		}
	}
	s.must(r.manager.Stop(s.Context()))
	for _, p := range r.granted {
		if neededAtStart(p) {
			t.Run(p.String(), func(t *testing.T) { r.takeBeforeStart(s.in(t), p) })
		}
	}
}

// neededAtStart reports whether a permission is used when a manager starts, and hardly later.
func neededAtStart(p permissions.Permission) bool {
	return p.Verb == "list" || p.Verb == "watch" || p == reviewOwn || p == getRevisions || p.Namespace != ""
}

// read reads the manager's roles, and all permissions that they grant.
func (r *rights) read(s *scenario) {
	s.Helper()
	components, err := os.ReadFile(s.env.Components)
	s.must(err)
	r.granted, err = permissions.Granted(bytes.NewReader(components), environment.Namespace, environment.ServiceAccount)
	s.must(err)
	cluster, own := &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{}
	installed := client.MatchingLabels{clusterv1.ProviderNameLabel: provider}
	s.must(s.client.List(s.Context(), cluster, installed))
	s.must(s.client.List(s.Context(), own, installed))
	r.cluster, r.own = cluster.Items, own.Items
	// Kubernetes gives all users some permissions, which an administrator may remove.
	s.must(s.client.Delete(s.Context(),
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "system:basic-user"}}))
}

// prepare starts a manager with all permissions, and makes it use all of them.
func (r *rights) prepare(s *scenario) {
	s.must(s.env.Management.CreateClass(s.Context(), testbed.ClassOptions{Namespace: s.namespace, Name: "class"}))
	_, err := s.env.Management.CreateClassCluster(s.Context(), "class", testbed.ClusterOptions{Namespace: s.namespace,
		Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})
	s.must(err)
	r.workload = s.workload("one")
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "values"},
		Data: map[string]string{"values.yaml": "greeting: none"}})
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "puller"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: environment.CredentialsSecret}}})
	r.other.allowInManagementCluster()
	// A manager that cannot write a status repeats its Events, and only then patches an Event.
	r.other.refuseStatus()
	r.steady = s.newHelmOp("steady", forAll, func(h *addonsv1.HelmOp) {
		h.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: "ConfigMap", Name: "values"}}
		h.Spec.ValuesTemplate = "region: {{ .ClusterClass.metadata.name }} {{ .InfrastructureCluster.metadata.name }} " +
			"{{ .ControlPlane.metadata.name }}"
		h.Spec.Source.ImagePullServiceAccountName = "puller"
		h.Spec.RevisionHistoryLimit = new(int32)
	})
	r.still = s.newHelmOp("still", forAll)
	s.create(r.steady)
	s.create(r.still)
	r.manager, err = s.env.StartManager(s.Context(), r.args()...)
	s.must(err)
	s.eventually(r.still, ready(1))
	for range 2 {
		r.stir(s)
		r.settle(s)
	}
	s.Expect(missing(r.reports(s, 0))).To(gomega.BeEmpty())
}

// args are the arguments of all managers.
func (r *rights) args() []string {
	return []string{"--management-cluster-namespaces=" + r.other.namespace}
}

// stir makes changes that need all permissions of a running manager.
func (r *rights) stir(s *scenario) {
	s.Helper()
	r.round++
	number := fmt.Sprint(r.round)
	r.mark(s, number)
	if r.former = r.helmOp; r.former != nil {
		s.remove(r.former)
		for _, name := range []string{"cross-", "managed-", "unwritable-"} {
			r.other.remove(r.other.newHelmOp(name + strings.TrimPrefix(r.former.Name, "round-")))
		}
	}
	// Only a release in the management cluster that is deleted makes the manager get a Namespace.
	r.other.create(r.other.newHelmOp("managed-"+number, inManagementCluster, func(h *addonsv1.HelmOp) {
		h.Spec.Values = rawJSON(map[string]any{"cluster": "management", "podCIDR": "10.0.0.0/8"})
	}))
	r.helmOp = s.newHelmOp("round-"+number, forAll, func(h *addonsv1.HelmOp) {
		h.Spec.ClusterCondition = "Round" + number + "Ready"
		h.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
	})
	s.create(r.helmOp)
	r.other.create(r.other.newHelmOp("cross-"+number, forAll, func(h *addonsv1.HelmOp) {
		h.Spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{AuthorizationServiceAccountName: "cross-" + number}
		h.Spec.ClusterNamespaces.NamespaceSelector.MatchLabels = map[string]string{corev1.LabelMetadataName: s.namespace}
	}))
	r.other.create(r.other.newHelmOp("unwritable-"+number, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "9.9.9" }))
	// A token that the manager has not seen yet.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "puller"}}
	s.get("https://"+r.manager.DiagnosticsAddress+"/metrics", s.token(account))
}

// mark changes all objects that the steady HelmOp reads.
func (r *rights) mark(s *scenario, number string) {
	s.Helper()
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.namespace, Name: name} }
	annotate := func(obj client.Object) { obj.SetAnnotations(map[string]string{"round": number}) }
	update[client.Object](s, &corev1.Secret{ObjectMeta: named(environment.CredentialsSecret)}, annotate)
	update[client.Object](s, &corev1.ServiceAccount{ObjectMeta: named("puller")}, annotate)
	update(s, &corev1.ConfigMap{ObjectMeta: named("values")}, func(m *corev1.ConfigMap) {
		m.Data["values.yaml"] = "greeting: round " + number
	})
}

// settle waits until the manager has done everything after stir.
func (r *rights) settle(s *scenario) {
	s.Helper()
	s.eventually(r.steady, ready(1))
	r.workload.in(s).eventuallyHello(releaseNamespace, r.steady.Name,
		map[string]string{"greeting": fmt.Sprintf("round %d", r.round)})
	s.eventually(r.helmOp, ready(1))
	managed := r.other.newHelmOp(fmt.Sprintf("managed-%d", r.round))
	r.other.eventually(managed, ready(1))
	if r.former != nil {
		s.eventuallyGone(r.former)
		r.other.eventuallyGone(r.other.newHelmOp(fmt.Sprintf("managed-%d", r.round-1)))
	}
	s.Eventually(func() []permissions.Permission { return missing(r.conditions(s)) }).Should(gomega.BeEmpty())
}

// takeWhileRunning removes a permission from the running manager, and restores the permission when the manager reports
// it as missing.
func (r *rights) takeWhileRunning(s *scenario, p permissions.Permission) {
	info, err := os.Stat(r.manager.LogFile())
	s.must(err)
	defer r.settle(s)
	defer r.grantWithout(s)
	r.grantWithout(s, p)
	r.stir(s)
	r.eventuallyMissing(s, info.Size(), p)
	if p.Verb == "get" && p.Resource == "configmaps" {
		s.eventually(r.steady, func(g gomega.Gomega, helmOp *addonsv1.HelmOp) {
			expectCondition(g, helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReferenceNotFoundReason)
			g.Expect(conditions.GetMessage(helmOp, addonsv1.ReadyCondition)).To(gomega.HaveSuffix("ConfigMap " + s.namespace +
				"/values: the manager may not read it; grant its ServiceAccount the right to read it"))
		})
	}
}

// takeBeforeStart starts a manager without a permission. Each permission needs its own manager, because a running watch
// does not end when its permission is removed.
func (r *rights) takeBeforeStart(s *scenario, p permissions.Permission) {
	s.remove(lease())
	taken := []permissions.Permission{p}
	if p == reviewOwn {
		taken = append(taken, listInfrastructure)
	}
	if p == getRevisions {
		r.hideRevision(s)
	}
	defer r.giveBack(s)
	r.grantWithout(s, taken...)
	var err error
	r.manager, err = s.env.LaunchManager(s.Context(), r.args()...)
	s.must(err)
	// A manager that waits for its caches stops late.
	defer func() { s.must(r.manager.Kill()) }()
	if p == reviewOwn {
		// Without the review, the manager does not know the cause, and reports it late.
		s.Eventually(func() string { return r.reports(s, 0) }).WithTimeout(missedWithin).Should(gomega.MatchRegexp(
			`LocalCluster.* could not be listed within`))
	} else {
		r.eventuallyMissing(s, 0, p)
	}
}

// giveBack restores all permissions. If conditions report missing permissions, a manager runs until they no longer do.
func (r *rights) giveBack(s *scenario) {
	s.Helper()
	r.grantWithout(s)
	if len(missing(r.conditions(s))) == 0 {
		return
	}
	s.remove(lease())
	var err error
	r.manager, err = s.env.StartManager(s.Context(), r.args()...)
	s.must(err)
	s.Eventually(func() []permissions.Permission { return missing(r.conditions(s)) }).Should(gomega.BeEmpty())
	s.must(r.manager.Stop(s.Context()))
}

// lease is the lease of the managers. A manager that was killed, or may not update it, does not release it.
func lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: environment.Namespace, Name: leaseName}}
}

// hideRevision removes the labels from the only revision of a HelmOp. A manager that starts finds the revision by its
// name.
func (r *rights) hideRevision(s *scenario) {
	s.Helper()
	update(s, &addonsv1.HelmOpRevision{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: r.still.Name + "-1"}},
		func(revision *addonsv1.HelmOpRevision) { revision.Labels = nil })
}

// eventuallyMissing waits until the manager reports a permission as missing, and no other one.
func (r *rights) eventuallyMissing(s *scenario, from int64, p permissions.Permission) {
	s.Helper()
	var reports string
	s.Eventually(func(g gomega.Gomega) {
		reports = r.reports(s, from)
		g.Expect(missing(reports)).NotTo(gomega.BeEmpty(), "missing %s", p)
	}).WithTimeout(missedWithin).Should(gomega.Succeed())
	for _, found := range missing(reports) {
		s.Expect(p.Grants(found)).To(gomega.BeTrue(), "%s is missing, too", found)
	}
	for line := range strings.Lines(reports) {
		if len(missing(line)) > 0 {
			s.Logf("what failed: %.400s", strings.TrimSpace(line))
			return
		}
	}
}

// missing returns the permissions that a text of the manager reports as missing.
func missing(text string) []permissions.Permission {
	all := permissions.Refused(text)
	if strings.Contains(text, blockedOwner) {
		all = append(all, finalizers)
	}
	for _, found := range unread.FindAllStringSubmatch(text, -1) {
		all = append(all, permissions.Permission{Verb: "get", Resource: strings.ToLower(found[1]) + "s"})
	}
	for _, found := range unreadable.FindAllStringSubmatch(text, -1) {
		all = append(all, permissions.Permission{Verb: found[1], Resource: found[2], Group: found[3]})
	}
	return all
}

// reports returns the log of the manager from an offset, and the conditions of all HelmOps and releases.
func (r *rights) reports(s *scenario, from int64) string {
	s.Helper()
	log, err := os.ReadFile(r.manager.LogFile())
	s.must(err)
	return string(log[from:]) + r.conditions(s)
}

// conditions returns the conditions of all HelmOps and releases, one line for each object.
func (r *rights) conditions(s *scenario) string {
	s.Helper()
	text := &strings.Builder{}
	for _, namespace := range []string{s.namespace, r.other.namespace} {
		helmOps, releases := &addonsv1.HelmOpList{}, &addonsv1.HelmOpReleaseList{}
		s.must(s.client.List(s.Context(), helmOps, client.InNamespace(namespace)))
		s.must(s.client.List(s.Context(), releases, client.InNamespace(namespace)))
		for i := range helmOps.Items {
			fmt.Fprintf(text, "HelmOp %s: %s\n", helmOps.Items[i].Name, toJSON(helmOps.Items[i].Status.Conditions))
		}
		for i := range releases.Items {
			fmt.Fprintf(text, "HelmOpRelease %s: %s\n", releases.Items[i].Name, toJSON(releases.Items[i].Status.Conditions))
		}
	}
	return text.String()
}

// grantWithout writes the roles without the given permissions, and waits until the API server has seen them.
func (r *rights) grantWithout(s *scenario, taken ...permissions.Permission) {
	s.Helper()
	without := func(rules []rbacv1.PolicyRule, namespace string) []rbacv1.PolicyRule {
		for _, p := range taken {
			if p.Namespace == namespace {
				rules = permissions.Without(rules, p.Group, p.Resource, p.Verb)
			}
		}
		return rules
	}
	for i := range r.cluster {
		update(s, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: r.cluster[i].Name}},
			func(role *rbacv1.ClusterRole) { role.Rules = without(r.cluster[i].Rules, "") })
	}
	for i := range r.own {
		update(s, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: r.own[i].Namespace, Name: r.own[i].Name}},
			func(role *rbacv1.Role) { role.Rules = without(r.own[i].Rules, r.own[i].Namespace) })
	}
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		for _, p := range r.granted {
			g.Expect(r.may(ctx, s, p)).To(gomega.Equal(!slices.Contains(taken, p)), "%s", p)
		}
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// may reports whether the manager has a permission, according to the API server.
func (r *rights) may(ctx context.Context, s *scenario, p permissions.Permission) bool {
	s.Helper()
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: environment.User,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + environment.Namespace,
			"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: p.Namespace, Group: p.Group, Verb: p.Verb,
			Resource: resource, Subresource: subresource},
	}}
	s.must(s.client.Create(ctx, review))
	return review.Status.Allowed
}

// serveAgain runs a manager with all permissions. It deletes the HelmOps at the end.
func (r *rights) serveAgain(s *scenario) {
	ctx := context.WithoutCancel(s.Context())
	for i := range r.cluster {
		role := &rbacv1.ClusterRole{}
		s.must(s.client.Get(ctx, client.ObjectKeyFromObject(&r.cluster[i]), role))
		role.Rules = r.cluster[i].Rules
		s.must(s.client.Update(ctx, role))
	}
	for i := range r.own {
		role := &rbacv1.Role{}
		s.must(s.client.Get(ctx, client.ObjectKeyFromObject(&r.own[i]), role))
		role.Rules = r.own[i].Rules
		s.must(s.client.Update(ctx, role))
	}
	if r.manager != nil && r.manager.Running() {
		return
	}
	s.must(client.IgnoreNotFound(s.client.Delete(ctx, lease())))
	_, err := s.env.StartManager(ctx, r.args()...)
	s.must(err)
}
