// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// oldServer refuses streaming lists, like API servers before Kubernetes 1.32.
type oldServer struct {
	http.RoundTripper
	refused atomic.Int32
}

func (s *oldServer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("sendInitialEvents") == "" {
		return s.RoundTripper.RoundTrip(req)
	}
	s.refused.Add(1)
	// Without this field, the server refuses the related field in the same way.
	changed := req.Clone(req.Context())
	query := changed.URL.Query()
	query.Del("sendInitialEvents")
	query.Set("resourceVersionMatch", "NotOlderThan")
	changed.URL.RawQuery = query.Encode()
	return s.RoundTripper.RoundTrip(changed)
}

func TestServerWithoutStreamingLists(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deployment, config := b.createDeployment("d", helmLabels()), b.createConfigMap("c")
	old := &oldServer{}
	settings := b.server.RESTConfig()
	settings.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		old.RoundTripper = next
		return old
	}
	release := key("r")
	b.watcher.Follow(release, b.connection("old", settings), Plan{
		Objects: []inventory.Ref{deployment, config}, Checker: checker(t), Drift: true,
	})
	if snapshot := b.synced(release); snapshot.Err != nil || !snapshot.Objects[config].Exists {
		t.Errorf("got %+v", snapshot)
	}
	b.rollOut("d")
	b.status(release, deployment, health.Current)
	// For the second kind, no streaming list is requested, because the server has refused one for the first kind.
	if lists, refused := b.sent(apiserver.WithVerb("list")), old.refused.Load(); len(lists) != 2 || refused < 1 ||
		refused > 2 {
		t.Errorf("want a list for each kind, and one or two refused: %d were, got %+v", refused, lists)
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Labels: helmLabels()} }

// nowhere is a label that no node has at first.
var nowhere = map[string]string{"no": "where"}

// createWorkloads creates Pods that find a node and Pods that find none.
func (b *bench) createWorkloads(ctx context.Context) {
	b.t.Helper()
	pods := func(labels, selector map[string]string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			NodeSelector: selector, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			// The simulated nodes have a taint.
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		}}
	}
	for name, selector := range map[string]map[string]string{"agent": nil, "idle": nowhere} {
		labels := map[string]string{"app": name}
		if _, err := b.kube.AppsV1().DaemonSets(b.namespace).Create(ctx, &appsv1.DaemonSet{ObjectMeta: named(name),
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pods(labels, selector)},
		}, metav1.CreateOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
	for name, selector := range map[string]map[string]string{"web": nil, "stuck": nowhere} {
		labels := map[string]string{"app": name}
		if _, err := b.kube.AppsV1().Deployments(b.namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: named(name),
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pods(labels, selector)},
		}, metav1.CreateOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
	// The simulation completes the pods of Jobs.
	job := pods(nil, nil)
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	if _, err := b.kube.BatchV1().Jobs(b.namespace).Create(ctx,
		&batchv1.Job{ObjectMeta: named("job"), Spec: batchv1.JobSpec{Template: job}},
		metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// createVolumeClaims creates a claim that waits for its first consumer, and a claim whose volume is never provided.
func (b *bench) createVolumeClaims(ctx context.Context) {
	b.t.Helper()
	for name, binding := range map[string]storagev1.VolumeBindingMode{
		"late": storagev1.VolumeBindingWaitForFirstConsumer, "soon": storagev1.VolumeBindingImmediate,
	} {
		if _, err := b.kube.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: named(name), Provisioner: "example.com/x", VolumeBindingMode: &binding,
		}, metav1.CreateOptions{}); err != nil {
			b.t.Fatal(err)
		}
		if _, err := b.kube.CoreV1().PersistentVolumeClaims(b.namespace).Create(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: named(name),
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: quantity.MustParse("1Gi")},
				},
			},
		}, metav1.CreateOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestRealControllers checks the rules of health against the status that real controllers of Kubernetes write.
func TestRealControllers(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	server, err := apiserver.Start(ctx, apiserver.Options{
		Name: "controllers", Dir: t.TempDir(), Binaries: sharedServer.Binaries(), KwokNodes: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if b.kube, err = kubernetes.NewForConfig(server.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	b.server, b.namespace = server, "default"
	b.conn = b.connection("controllers", server.RESTConfig())
	eventually(t, "the default service account", func() bool {
		_, err := b.kube.CoreV1().ServiceAccounts(b.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})

	b.createWorkloads(ctx)
	b.createVolumeClaims(ctx)
	if _, err := b.kube.CoreV1().Services(b.namespace).Create(ctx, &corev1.Service{ObjectMeta: named("lb"),
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	ref := func(apiVersion, kind, name string) inventory.Ref {
		gv, _ := schema.ParseGroupVersion(apiVersion)
		return inventory.Ref{Group: gv.Group, Version: gv.Version, Kind: kind, Namespace: b.namespace, Name: name}
	}
	want := map[inventory.Ref]health.Status{
		ref("apps/v1", "DaemonSet", "agent"):       health.Current,
		ref("apps/v1", "DaemonSet", "idle"):        health.Current,
		ref("apps/v1", "Deployment", "web"):        health.Current,
		ref("apps/v1", "Deployment", "stuck"):      health.InProgress,
		ref("batch/v1", "Job", "job"):              health.Current,
		ref("v1", "PersistentVolumeClaim", "late"): health.Current,
		ref("v1", "PersistentVolumeClaim", "soon"): health.InProgress,
		ref("v1", "Service", "lb"):                 health.Current,
	}
	var refs []inventory.Ref
	for r := range want {
		refs = append(refs, r)
	}
	b.watcher.Follow(key("r"), b.conn, Plan{Objects: refs, Checker: checker(t)})
	for r, status := range want {
		b.status(key("r"), r, status)
	}
	settled := b.synced(key("r")).Fingerprint
	if _, err := b.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "second",
		Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}, Labels: nowhere}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.status(key("r"), ref("apps/v1", "Deployment", "stuck"), health.Current)
	if now := b.look(key("r")).Fingerprint; now != settled {
		t.Error("the work of controllers looks like drift")
	}
}
