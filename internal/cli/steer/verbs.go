// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// steer is the part that all writing commands share.
type steer struct {
	kube.Base
	dryRun  kube.DryRun
	wait    bool
	timeout time.Duration
}

func newSteer(o kube.Options) *steer { return &steer{Base: kube.NewBase(o)} }

// defaultTimeout is the default timeout of --wait.
const defaultTimeout = 5 * time.Minute

func (s *steer) add(cmd *cobra.Command) {
	s.Base.Add(cmd)
	s.dryRun.Add(cmd.Flags())
	cmd.Flags().BoolVar(&s.wait, "wait", false, "Wait until the result is observed, and print what the command waits for.")
	cmd.Flags().DurationVar(&s.timeout, "timeout", defaultTimeout, "How long --wait waits; 0 is without a limit.")
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{"none", "server"},
		cobra.ShellCompDirectiveNoFileComp))
}

// waiter waits for the result of a request.
type waiter func(ctx context.Context) error

// command returns a command that makes a request for each HelmOp in the arguments. most is the largest number of
// arguments. With --wait, it then waits for all of them.
func (s *steer) command(use, short, long, example string, most int,
	run func(ctx context.Context, c *kube.Client, name string) (waiter, error),
) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: kube.Args(1, most), ValidArgsFunction: s.CompleteHelmOps(most),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.dryRun.Validate(); err != nil {
				return err
			}
			c, err := s.Connect()
			if err != nil {
				return err
			}
			var errs []error
			var waiters []waiter
			for _, name := range args {
				waiter, err := run(cmd.Context(), c, name)
				if err != nil {
					errs = append(errs, err)
				} else if s.waits() {
					waiters = append(waiters, waiter)
				}
			}
			return errors.Join(append(errs, s.awaitAll(cmd.Context(), waiters))...)
		},
	}
	s.add(cmd)
	return cmd
}

// waits reports whether the command waits for the results of its requests.
func (s *steer) waits() bool { return s.wait && s.dryRun != kube.DryRunServer }

// awaitAll waits for several results at the same time. They share the deadline. An error of one wait does not end the
// others.
func (s *steer) awaitAll(ctx context.Context, waiters []waiter) error {
	ctx, cancel := kube.Bounded(ctx, s.timeout)
	defer cancel()
	errs := make([]error, len(waiters))
	var group sync.WaitGroup
	for i, waiter := range waiters {
		group.Go(func() { errs[i] = waiter(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// patchOptions are the options of a patch.
func (s *steer) patchOptions() []client.PatchOption {
	options := []client.PatchOption{client.FieldOwner(kube.FieldManager)}
	if s.dryRun == kube.DryRunServer {
		options = append(options, client.DryRunAll)
	}
	return options
}

// done prints the result of a request.
func (s *steer) done(object client.Object, kind, what string) {
	if s.dryRun == kube.DryRunServer {
		what += " (server dry run)"
	}
	_, _ = fmt.Fprintf(s.Streams.Out, "%s.%s/%s %s\n", kind, addonsv1.GroupVersion.Group, object.GetName(), what)
}

// ask shows what a request is about, and asks a question. If the answer is not yes, or if the context ends first, the
// error has the text refused.
func (s *steer) ask(ctx context.Context, what, question, refused string, yes bool) error {
	_, _ = fmt.Fprint(s.Streams.Out, what)
	if yes || s.dryRun == kube.DryRunServer {
		return nil
	}
	s.Note("%s", question)
	answers := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(s.Streams.In).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case <-ctx.Done():
		return kube.WithText(refused, ctx.Err())
	case answer := <-answers:
		if answer != "y" && answer != "yes" {
			return errors.New(refused)
		}
		return nil
	}
}

// change makes a request, and returns the changed HelmOp. If the HelmOp changes at the same time, it decides again with
// the new state.
func (s *steer) change(ctx context.Context, c *kube.Client, name string, request request) (
	changed *addonsv1.HelmOp, err error,
) {
	err = kube.RetryOnConflict(func() error {
		helmOp, err := c.HelmOp(ctx, name)
		if err != nil {
			return err
		}
		before := helmOp.DeepCopy()
		what, err := request(helmOp)
		if err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(before, helmOp) {
			patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
			if err := c.Patch(ctx, helmOp, patch, s.patchOptions()...); err != nil {
				return err
			}
		}
		s.done(helmOp, "helmop", what)
		changed = helmOp
		return nil
	})
	return changed, kube.Explain(err)
}

// changeTo makes a request. The waiter waits for the goal of the changed HelmOp.
func (s *steer) changeTo(ctx context.Context, c *kube.Client, name string, request request,
	goalOf func(changed *addonsv1.HelmOp) goal,
) (waiter, error) {
	changed, err := s.change(ctx, c, name, request)
	if err != nil {
		return nil, err
	}
	return s.observer(c, name).waiter(goalOf(changed)), nil
}

// observer waits for a HelmOp, or for objects that belong to it.
type observer struct {
	client *kube.Client
	helmOp string

	// timeout is the time limit of the command, for messages. The context has the deadline.
	timeout time.Duration
}

func (s *steer) observer(c *kube.Client, helmOp string) *observer {
	return &observer{c, helmOp, s.timeout}
}

// waiter waits until the HelmOp reaches a goal.
func (o *observer) waiter(goal goal) waiter {
	key, existed := client.ObjectKey{Namespace: o.client.Namespace, Name: o.helmOp}, false
	check := func(helmOps map[client.ObjectKey]*addonsv1.HelmOp) (bool, string, error) {
		helmOp := helmOps[key]
		switch {
		case helmOp != nil:
			existed = true
			return goal(helmOp)
		case existed:
			return false, "", fmt.Errorf("HelmOp %q was deleted", o.helmOp)
		default:
			return false, "", kube.NoHelmOp(key.Namespace, key.Name)
		}
	}
	return func(ctx context.Context) error {
		return waitUntil(ctx, o, &addonsv1.HelmOpList{}, check, kube.Named(key.Namespace, key.Name)...)
	}
}

// errTimedOut is wrapped by the errors of waits that reached their deadline.
var errTimedOut = errors.New("timed out")

// waitUntil watches objects until the check returns true or an error. It prints what it waits for when this changes.
func waitUntil[T client.Object](ctx context.Context, o *observer, list client.ObjectList,
	check func(map[client.ObjectKey]T) (bool, string, error), opts ...client.ListOption,
) error {
	shown, objects := "", map[client.ObjectKey]T{}
	err := kube.Follow(ctx, o.client, list, func(change kube.Change[T]) (bool, error) {
		change.Apply(&objects)
		reached, waitsFor, err := check(objects)
		if !reached && err == nil && waitsFor != shown {
			shown = waitsFor
			if waitsFor != "" {
				o.client.Note("%s: waiting for %s", o.helmOp, waitsFor)
			}
		}
		return reached, err
	}, opts...)
	// A client refuses a request after the deadline, even before the context has ended.
	deadline, hasDeadline := ctx.Deadline()
	if err == nil || !hasDeadline || time.Now().Before(deadline) || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	// Use this text instead of an error of the network.
	text := fmt.Sprintf("HelmOp %q: timed out after %s", o.helmOp, o.timeout)
	if shown != "" {
		text += " waiting for " + shown
	}
	return kube.WithText(text, errTimedOut)
}

// requestTime returns the current time, for the value of an annotation that makes a request.
func (s *steer) requestTime() string { return s.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func newReconcile(o kube.Options) *cobra.Command {
	s := newSteer(o)
	return s.command("reconcile HELMOP...", "Resolve the source of HelmOps now",
		`Resolve the source of HelmOps now, without waiting for spec.source.interval. If the source refers to another artifact
than before, a rollout begins. The command sets the annotation addons.cluster.x-k8s.io/resolve-requested-at.`,
		`  # A new version was pushed: do not wait for the interval
  kubectl helmop reconcile calico --wait`, -1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			value := s.requestTime()
			return s.changeTo(ctx, c, name, reconcileNow(value),
				func(*addonsv1.HelmOp) goal { return isReconciled(value) })
		})
}

func newPause(o kube.Options) *cobra.Command {
	s := newSteer(o)
	return s.command("pause HELMOP...", "Pause HelmOps: nothing is resolved, installed, upgraded or uninstalled",
		`Pause HelmOps: nothing is resolved, installed, upgraded, repaired or uninstalled. The command sets spec.paused to
true. To stop only the rollout of a change, use "rollout pause".`,
		`  kubectl helmop pause calico`, -1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			return s.changeTo(ctx, c, name, setPaused(true), func(*addonsv1.HelmOp) goal { return isPausedAs(true) })
		})
}

func newResume(o kube.Options) *cobra.Command {
	s := newSteer(o)
	return s.command("resume HELMOP...", "End the pause of HelmOps",
		`End the pause of HelmOps. The command sets spec.paused to false.`,
		`  kubectl helmop resume calico --wait`, -1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			return s.changeTo(ctx, c, name, setPaused(false), func(*addonsv1.HelmOp) goal { return isPausedAs(false) })
		})
}
