// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local"
	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
)

const (
	// cleanupTimeout is the timeout for the end of a scenario, and so for a deletion that hangs.
	cleanupTimeout = 4 * time.Minute

	// lastLookTimeout bounds the list of what is left after that time.
	lastLookTimeout = 10 * time.Second

	// dumpedLines is the number of log lines of a manager that are shown.
	dumpedLines = 60
)

// dump logs the state after a failed scenario: its objects, Events and the managers' log lines about them. At the end
// of the report, hack/cmd/testrun repeats the message that was logged before the first line.
func (s *scenario) dump() {
	s.Logf("the state after the failure:")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, list := range []client.ObjectList{
		&addonsv1.HelmOpList{}, &addonsv1.HelmOpRevisionList{}, &addonsv1.HelmOpReleaseList{}, &clusterv1.ClusterList{},
		&eventsv1.EventList{},
	} {
		if err := s.client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			s.Logf("cannot dump: %v", err)
			continue
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			s.Logf("cannot dump: %v", err)
			continue
		}
		for _, object := range objects {
			if event, ok := object.(*eventsv1.Event); ok {
				s.Logf("event: %s %s %s %s: %s", event.Regarding.Kind, event.Regarding.Name, event.Type, event.Reason, event.Note)
				continue
			}
			obj := object.(client.Object)
			obj.SetManagedFields(nil)
			text, err := yaml.Marshal(obj)
			s.Logf("%T %s (%v):\n%s", obj, obj.GetName(), err, text)
		}
	}
	for _, manager := range s.env.Managers() {
		lines, err := lastLines(manager.LogFile(), s.namespace, dumpedLines)
		s.Logf("the last of %s that names %s (%v):\n%s", manager.LogFile(), s.namespace, err, strings.Join(lines, "\n"))
	}
}

// empty deletes the objects of a scenario and fails if a deletion is stuck. It deletes HelmOps and Clusters at the same
// time: nothing may depend on the order.
func (s *scenario) empty() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	// Other tests check deletions while a control plane stops. At the end of a test, the delay is skipped.
	errs := []error{s.skipDeletionDelay(ctx)}
	for _, obj := range []client.Object{&addonsv1.HelmOp{}, &clusterv1.Cluster{}} {
		errs = append(errs, ignoreNotServed(s.client.DeleteAllOf(ctx, obj, client.InNamespace(s.namespace))))
	}
	if err := errors.Join(errs...); err != nil {
		s.Errorf("cannot clean up: %v", err)
		return
	}
	left, err := s.waitEmpty(ctx)
	if err != nil && !s.Failed() {
		s.dump()
	}
	if err != nil {
		s.Errorf("after the end of the scenario, %s is left: %v", left, err)
	}
}

// skipDeletionDelay removes the delay in the deletion of the scenario's control planes.
func (s *scenario) skipDeletionDelay(ctx context.Context) error {
	list := &controlplanev1.LocalControlPlaneList{}
	if err := s.client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		plane := &list.Items[i]
		before := plane.DeepCopy()
		metav1.SetMetaDataAnnotation(&plane.ObjectMeta, local.DeleteAtOnceAnnotation, "")
		errs = append(errs, client.IgnoreNotFound(s.client.Patch(ctx, plane, client.MergeFrom(before))))
	}
	return errors.Join(errs...)
}

// waitEmpty waits until no object is left. It waits for one kind after the other, because each request takes CPU time.
func (s *scenario) waitEmpty(ctx context.Context) (left string, err error) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	kinds := []client.ObjectList{&clusterv1.ClusterList{}, &addonsv1.HelmOpReleaseList{}, &addonsv1.HelmOpList{}}
	for waiting := kinds; ; {
		for len(waiting) > 0 && s.left(ctx, waiting[0]) == "" {
			waiting = waiting[1:]
		}
		if len(waiting) == 0 && s.left(ctx, kinds...) == "" {
			return "", nil
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLookTimeout)
			defer cancel()
			return s.left(last, kinds...), ctx.Err()
		case <-ticker.C:
		}
	}
}

// left names the objects of these kinds that still exist in the scenario's namespace.
func (s *scenario) left(ctx context.Context, kinds ...client.ObjectList) string {
	var names []string
	for _, list := range kinds {
		if err := ignoreNotServed(s.client.List(ctx, list, client.InNamespace(s.namespace))); err != nil {
			return err.Error()
		}
		_ = meta.EachListItem(list, func(object runtime.Object) error {
			names = append(names, fmt.Sprintf("%T %s", object, object.(client.Object).GetName()))
			return nil
		})
	}
	return strings.Join(names, ", ")
}

// ignoreNotServed drops the error of a kind that is not served. A scenario that removes HelmOp removes its kinds with
// their objects.
func ignoreNotServed(err error) error {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// lastLines returns the last lines of a file that contain a text.
func lastLines(path, text string, count int) ([]string, error) {
	var lines []string
	err := eachLine(path, func(line string) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	})
	return lines[max(0, len(lines)-count):], err
}

// faultsInLog are texts that no line of a manager's log may contain. Controllers recover from panics. A reconciler that
// returns both a result and an error only seems to have chosen the time of its next pass.
var faultsInLog = []string{"Observed a panic", "DATA RACE", "Reconciler returned both a result"}

// noFault fails if a manager's log contains a panic or one of faultsInLog.
func noFault(path string) error {
	var found error
	err := eachLine(path, func(line string) {
		isFault := func(text string) bool { return strings.Contains(line, text) }
		if found == nil && (strings.HasPrefix(line, "panic:") || slices.ContainsFunc(faultsInLog, isFault)) {
			found = fmt.Errorf("%s: %s", path, line)
		}
	})
	return errors.Join(err, found)
}

func eachLine(path string, do func(line string)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(make([]byte, 1<<16), 1<<24)
	for scanner.Scan() {
		do(scanner.Text())
	}
	return scanner.Err()
}
