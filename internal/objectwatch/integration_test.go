// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"errors"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

func TestFollowsHealth(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deployment, gone := b.createDeployment("d", helmLabels()), b.deploymentRef("gone")
	config := b.createConfigMap("c")
	b.createDeployment("other", helmLabels())
	release := key("r")
	b.watcher.Follow(release, b.conn, Plan{Objects: []inventory.Ref{deployment, config, gone}, Checker: checker(t)})
	snapshot := b.synced(release)
	if snapshot.Err != nil || len(snapshot.Objects) != 2 {
		t.Fatalf("want the two Deployments, which have a health, got %+v", snapshot)
	}
	if state := snapshot.Objects[gone]; state.Exists || state.Health != health.NotFound {
		t.Errorf("an object that does not exist is %+v", state)
	}
	b.status(release, deployment, health.InProgress)
	eventually(t, "the first request", func() bool { return b.asked(release) == 1 })

	b.rollOut("d")
	before := b.status(release, deployment, health.Current)
	eventually(t, "a request for the changed status", func() bool { return b.asked(release) == 2 })

	since := time.Now()
	b.deleteDeployment("d")
	b.status(release, deployment, health.NotFound)
	if sent := b.sent(apiserver.Since(since)); len(sent) != 1 || sent[0].Verb != "get" {
		t.Errorf("a deletion is confirmed by one read, got %+v", sent)
	}
	b.createDeployment("d", helmLabels())
	after := b.status(release, deployment, health.InProgress)
	if before.UID == after.UID || before.Fingerprint == after.Fingerprint || after.UID == "" {
		t.Errorf("an object of the same name is another one: %+v, %+v", before, after)
	}
}

func TestHealthUsesChecks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	config := b.createConfigMap("c")
	strict := checker(t, health.Check{APIVersion: "v1", Kind: "ConfigMap", Current: "self.data.k == 'good'"})
	easy := checker(t, health.Check{APIVersion: "v1", Kind: "ConfigMap", Current: "self.data.k == 'v'"})
	b.watcher.Follow(key("strict"), b.conn, Plan{Objects: []inventory.Ref{config}, Checker: strict})
	b.watcher.Follow(key("easy"), b.conn, Plan{Objects: []inventory.Ref{config}, Checker: easy})
	b.status(key("strict"), config, health.InProgress)
	b.status(key("easy"), config, health.Current)
	b.patchConfigMap("c", `{"data":{"k":"good"}}`)
	b.status(key("strict"), config, health.Current)
	b.status(key("easy"), config, health.InProgress)
	// Now use other rules for objects that are followed already.
	b.watcher.Follow(key("strict"), b.conn, Plan{Objects: []inventory.Ref{config}, Checker: easy})
	b.status(key("strict"), config, health.InProgress)
}

func TestFingerprintChangesWithDrift(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deployment, config := b.createDeployment("d", helmLabels()), b.createConfigMap("c")
	release := key("r")
	plan := Plan{Objects: []inventory.Ref{deployment, config}, Checker: checker(t), Drift: true}
	b.watcher.Follow(release, b.conn, plan)
	first := b.synced(release)
	if state := first.Objects[config]; !state.Exists || state.Health != health.Current || state.OptOut {
		t.Errorf("a ConfigMap that exists is %+v", state)
	}

	b.rollOut("d")
	b.status(release, deployment, health.Current)
	if now := b.look(release); now.Fingerprint != first.Fingerprint {
		t.Error("a change of a status looks like drift")
	}

	b.patchConfigMap("c", `{"data":{"k":"other"}}`)
	b.becomes(release, config, "changed", func(s State) bool {
		return s.Fingerprint != first.Objects[config].Fingerprint && s.Manager == "somebody"
	})
	second := b.look(release)
	if second.Fingerprint == first.Fingerprint {
		t.Error("the fingerprint of the whole has not changed")
	}
	b.patchDeployment("d", `{"metadata":{"annotations":{"addons.cluster.x-k8s.io/drift-detection":"Disabled"}}}`)
	b.becomes(release, deployment, "left out", func(s State) bool { return s.OptOut })

	// A restarted process has the same result.
	last := b.look(release)
	b.stop()
	b.start()
	b.watcher.Follow(release, b.conn, plan)
	if again := b.synced(release); again.Fingerprint != last.Fingerprint {
		t.Errorf("after a restart the fingerprint is %s, was %s", again.Fingerprint, last.Fingerprint)
	}
}

// TestMoveMark checks that the mark of clusterctl move on a deleted object is known. The mark of an object with a label
// or an owner for which clusterctl move moves objects differs from the mark of another object.
func TestMoveMark(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deployment, config, other := b.createDeployment("d", helmLabels()), b.createConfigMap("c"), b.createConfigMap("other")
	annotated, unmarked := b.createConfigMap("annotated"), b.createConfigMap("unmarked")
	release := key("r")
	b.watcher.Follow(release, b.conn, Plan{Objects: []inventory.Ref{deployment, config, other, annotated, unmarked},
		Checker: checker(t), Drift: true})
	b.synced(release)
	const annotate = `"annotations":{"clusterctl.cluster.x-k8s.io/delete-for-move":""}`
	b.patchDeployment("d", `{"metadata":{"labels":{"clusterctl.cluster.x-k8s.io/move":""},`+annotate+`}}`)
	b.patchConfigMap("c", `{"metadata":{"ownerReferences":[{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1",`+
		`"kind":"DockerCluster","name":"one","uid":"1"}],`+annotate+`}}`)
	b.patchConfigMap("annotated", `{"metadata":{`+annotate+`}}`)
	b.patchConfigMap("unmarked", `{"metadata":{`+annotate+`}}`)
	b.patchConfigMap("unmarked", `{"metadata":{"annotations":{"clusterctl.cluster.x-k8s.io/delete-for-move":null}}}`)
	b.deleteDeployment("d")
	for _, name := range []string{"c", "other", "annotated", "unmarked"} {
		if err := b.kube.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	isGone := func(mark MoveMark) func(State) bool {
		return func(s State) bool { return s.Known && !s.Exists && s.MoveMark == mark }
	}
	b.becomes(release, deployment, "marked, with a label", isGone(MarkedMovable))
	b.becomes(release, config, "marked, with an owner", isGone(MarkedMovable))
	b.becomes(release, annotated, "marked", isGone(Marked))
	b.becomes(release, other, "gone", isGone(Unmarked))
	b.becomes(release, unmarked, "gone", isGone(Unmarked))
	b.createConfigMap("c")
	b.becomes(release, config, "back", func(s State) bool { return s.Exists && s.MoveMark == Unmarked })
}

func TestObjectWithoutLabel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deployment := b.createDeployment("d", helmLabels())
	release := key("r")
	plan := Plan{Objects: []inventory.Ref{deployment}, Checker: checker(t)}
	b.watcher.Follow(release, b.conn, plan)
	first := b.synced(release).Objects[deployment]
	b.patchDeployment("d", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`)
	b.becomes(release, deployment, "changed", func(s State) bool { return s.Exists && s.Fingerprint != first.Fingerprint })
	b.rollOut("d")
	b.status(release, deployment, health.Current)

	// The object stays followed when the plan changes.
	another := b.createDeployment("e", helmLabels())
	plan.Objects = append(plan.Objects, another)
	b.watcher.Follow(release, b.conn, plan)
	b.synced(release)
	b.deleteDeployment("d")
	b.status(release, deployment, health.NotFound)
	b.createDeployment("d", nil)
	b.status(release, deployment, health.InProgress)
	never(t, 200*time.Millisecond, "the other object is lost",
		func() bool { return !b.look(release).Objects[another].Exists })
}

func TestSharedStreamsAreQuiet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two, config := b.createDeployment("one", helmLabels()), b.createDeployment("two", helmLabels()),
		b.createConfigMap("c")
	plan := Plan{Objects: []inventory.Ref{one, config}, Checker: checker(t), Drift: true}
	b.watcher.Follow(key("one"), b.conn, plan)
	b.watcher.Follow(key("two"), b.conn, Plan{Objects: []inventory.Ref{two, config}, Checker: checker(t), Drift: true})
	b.synced(key("one"))
	b.synced(key("two"))
	if sent := b.sent(); len(sent) != 2 {
		t.Errorf("two releases share one watch of Deployments and one of ConfigMaps, got %+v", sent)
	}
	eventually(t, "first requests", func() bool { return b.asked(key("one")) == 1 && b.asked(key("two")) == 1 })

	since := time.Now()
	for range 100 {
		b.watcher.Follow(key("one"), b.conn, plan)
	}
	// Objects of other owners must be ignored.
	b.createDeployment("foreign", helmLabels())
	never(t, 2*time.Second, "something happened",
		func() bool { return b.asked(key("one")) > 1 || b.asked(key("two")) > 1 })
	if sent := b.sent(apiserver.Since(since)); len(sent) > 0 {
		t.Errorf("nothing changed, but the cluster was asked %+v", sent)
	}

	// An object that is followed already needs no request when the plan changes.
	b.watcher.Follow(key("one"), b.conn, Plan{Objects: []inventory.Ref{one}, Checker: checker(t), Drift: true})
	b.rollOut("one")
	b.status(key("one"), one, health.Current)
	if sent := b.sent(apiserver.Since(since)); len(sent) > 0 {
		t.Errorf("a smaller plan made requests: %+v", sent)
	}
	b.watcher.Forget(key("one"))
	b.rollOut("two")
	b.status(key("two"), two, health.Current)
	if _, ok := b.watcher.Look(key("one")); ok {
		t.Error("a forgotten release is remembered")
	}
}

// grant gives a user permissions in the namespace of the bench.
func (b *bench) grant(user string, rules ...rbacv1.PolicyRule) *rest.Config {
	b.t.Helper()
	meta := metav1.ObjectMeta{Name: user, Namespace: b.namespace}
	if _, err := b.kube.RbacV1().Roles(b.namespace).Create(b.t.Context(),
		&rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.kube.RbacV1().RoleBindings(b.namespace).Create(b.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: "User", Name: user, APIGroup: rbacv1.GroupName}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	for _, rule := range rules {
		access := authorizationv1.ResourceAttributes{Namespace: b.namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0],
			Resource: rule.Resources[0]}
		if err := b.server.WaitAllowed(b.t.Context(), user, access); err != nil {
			b.t.Fatal(err)
		}
	}
	config := b.server.RESTConfig()
	config.Impersonate.UserName = user
	return config
}

func TestTenantsAreFollowedByNamespace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deployment, config := b.createDeployment("d", helmLabels()), b.createConfigMap("c")
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x",
		Labels: map[string]string{"owner": "helm", "name": "r"}}}
	if _, err := b.kube.CoreV1().Secrets(b.namespace).Create(t.Context(), &secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tenant := b.connection("cluster", b.grant("tenant",
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"},
			Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}))
	records := &RecordsRef{Namespace: b.namespace, Name: "r"}
	permitted := Plan{Objects: []inventory.Ref{deployment}, Checker: checker(t), Records: records}
	b.watcher.Follow(key("permitted"), tenant, permitted)
	if snapshot := b.synced(key("permitted")); snapshot.Err != nil || snapshot.Records == recordsDigest(nil) {
		t.Fatalf("got %+v", snapshot)
	}
	b.rollOut("d")
	b.status(key("permitted"), deployment, health.Current)

	b.watcher.Follow(key("forbidden"), tenant, Plan{Objects: []inventory.Ref{deployment, config}, Drift: true})
	eventually(t, "an error", func() bool { return b.look(key("forbidden")).Err != nil })
	eventually(t, "a request about it", func() bool { return b.asked(key("forbidden")) > 0 })
	if snapshot := b.look(key("forbidden")); !errors.Is(snapshot.Err, ErrForbidden) || snapshot.Synced {
		t.Errorf("got %+v", snapshot)
	}
}

func TestFollowsRecords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := key("r")
	b.watcher.Follow(release, b.conn, Plan{Records: &RecordsRef{Namespace: b.namespace, Name: "app"}})
	none := b.synced(release).Records
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sh.helm.release.v1.app.v1", Labels: map[string]string{
		"owner": "helm", "name": "app", "version": "1", "status": "deployed"}}}
	secrets := b.kube.CoreV1().Secrets(b.namespace)
	created, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a record", func() bool { return b.look(release).Records != none })
	one, asked := b.look(release).Records, b.asked(release)
	created.Labels["status"] = "superseded"
	if _, err := secrets.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a changed record", func() bool { return b.look(release).Records != one && b.asked(release) > asked })
	if err := secrets.Delete(t.Context(), created.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no record", func() bool { return b.look(release).Records == none })
}

func TestKindThatIsNotServed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	widget := inventory.Ref{Group: "example.com", Version: "v1", Kind: "Widget", Namespace: b.namespace, Name: "w"}
	old := b.createDeployment("d", helmLabels())
	old.Version = "v1beta1"
	b.watcher.Follow(key("r"), b.conn, Plan{Objects: []inventory.Ref{widget, old}, Checker: checker(t)})
	snapshot := b.synced(key("r"))
	if state := snapshot.Objects[widget]; state.Exists || state.Health != health.NotFound {
		t.Errorf("got %+v", state)
	}
	if state := snapshot.Objects[old]; !state.Exists || state.Health != health.InProgress {
		t.Errorf("a version that is not served any more is read in another, got %+v", state)
	}
}

func TestDisconnect(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deployment := b.createDeployment("d", helmLabels())
	plan := Plan{Objects: []inventory.Ref{deployment}, Checker: checker(t)}
	b.watcher.Follow(key("r"), b.conn, plan)
	before := b.synced(key("r"))
	b.watcher.Disconnect("another")
	if !b.look(key("r")).Synced {
		t.Error("another cluster is none of our business")
	}
	b.watcher.Disconnect(b.conn.Cluster)
	snapshot := b.look(key("r"))
	if snapshot.Synced || !errors.Is(snapshot.Err, ErrDisconnected) ||
		snapshot.Objects[deployment].Fingerprint != before.Objects[deployment].Fingerprint ||
		!snapshot.Objects[deployment].Exists || snapshot.Objects[deployment].Known {
		t.Errorf("what is known stays, got %+v", snapshot)
	}
	b.rollOut("d")
	b.watcher.Follow(key("r"), b.conn, plan)
	b.status(key("r"), deployment, health.Current)
	// Other credentials mean another connection.
	other := b.conn
	other.Identity = "other"
	b.watcher.Follow(key("r"), other, plan)
	b.synced(key("r"))
}

// TestStreamsAreBounded checks that a release beyond the limit has an error, and is followed when another release ends.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.watcher.maxStreams = 1
	deployment, config := b.createDeployment("d", helmLabels()), b.createConfigMap("c")
	first, second := key("first"), key("second")
	b.watcher.Follow(first, b.conn, Plan{Objects: []inventory.Ref{deployment}, Drift: true})
	b.synced(first)
	b.watcher.Follow(second, b.conn, Plan{Objects: []inventory.Ref{config}, Drift: true})
	eventually(b.t, "trouble", func() bool {
		snapshot, _ := b.watcher.Look(second)
		return errors.Is(snapshot.Err, errTooManyStreams)
	})
	b.watcher.Forget(first)
	if snapshot := b.synced(second); snapshot.Err != nil || !snapshot.Objects[config].Exists {
		t.Errorf("got %+v", snapshot)
	}
}
