"""What the simulator does slowly and wrong on request."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha1, sha256
from http.client import RemoteDisconnected
from typing import Any

import pytest
from pyVim.task import WaitForTask
from pyVmomi import vim, vmodl

from support.vcenter import Simulator
from support.vcenter_client import Client, Listener, Pci, whole

LogIn = Callable[..., vim.ServiceInstance]


class TestSlow:
    def test_a_held_task_runs_until_it_is_released(
        self, vcenter: Simulator, client: Client
    ) -> None:
        vm = client.machine("a")
        vcenter.hold("PowerOnVM_Task")
        task = vm.PowerOnVM_Task(None)
        Listener(client, task, "info.state")
        assert [t["state"] for t in vcenter.tasks("PowerOnVM_Task")] in (["queued"], ["running"])
        assert not vcenter.vms()["a"]["on"]
        assert task in vm.recentTask
        again = vm.PowerOnVM_Task(None)
        with pytest.raises(vim.fault.TaskInProgress):
            WaitForTask(again)
        vcenter.release()
        WaitForTask(task)
        assert vcenter.vms()["a"]["on"]
        with pytest.raises(vim.fault.InvalidPowerState):
            client.on(vm)

    def test_a_task_may_be_carried_out_and_not_end(
        self, vcenter: Simulator, client: Client
    ) -> None:
        vm = client.machine("a")
        vcenter.hold("PowerOnVM_Task", after=True)
        task = vm.PowerOnVM_Task(None)
        assert vcenter.vms()["a"]["on"]
        assert task.info.state == "running"
        vcenter.release()
        WaitForTask(task)

    def test_a_queued_task_can_be_cancelled(self, vcenter: Simulator, client: Client) -> None:
        vm = client.machine("a")
        vcenter.hold("PowerOnVM_Task", queued=True)
        task = vm.PowerOnVM_Task(None)
        assert task.info.state == "queued"
        task.CancelTask()
        with pytest.raises(vmodl.fault.RequestCanceled):
            WaitForTask(task)
        vcenter.release()
        assert not vcenter.vms()["a"]["on"]

    def test_a_delayed_task_is_queued_runs_and_ends(
        self, vcenter: Simulator, client: Client
    ) -> None:
        vm = client.machine("a")
        vcenter.delay(4000, "PowerOnVM_Task")
        task = vm.PowerOnVM_Task(None)
        assert task.info.state == "queued"
        heard = Listener(client, task, "info.state")
        heard.until(lambda state: state == "running")
        heard.until(lambda state: state == "success")

    def test_two_clones_of_a_name_are_refused_while_one_is_made(
        self, vcenter: Simulator, client: Client
    ) -> None:
        vcenter.hold("CloneVM_Task")
        source = client.at("vm/ubuntu")
        pool = client.at("host/DC0_C0").resourcePool
        spec = vim.vm.CloneSpec(location=vim.vm.RelocateSpec(pool=pool))
        first = source.CloneVM_Task(source.parent, "a", spec)
        second = source.CloneVM_Task(source.parent, "a", spec)
        with pytest.raises(vim.fault.DuplicateName):
            WaitForTask(second)
        vcenter.release()
        WaitForTask(first)

    def test_tasks_that_are_done_may_be_forgotten(self, vcenter: Simulator, client: Client) -> None:
        vm = client.machine("a")
        task = vm.PowerOnVM_Task(None)
        WaitForTask(task)
        vcenter.forget_tasks()
        with pytest.raises(vmodl.fault.ManagedObjectNotFound):
            _ = task.info


class TestWrong:
    def test_a_task_may_fail_with_any_fault(self, vcenter: Simulator, client: Client) -> None:
        vm = client.machine("a")
        vcenter.fail("PowerOn*", "InvalidState", "Kaputt.", vm="a", times=2)
        for _ in range(2):
            with pytest.raises(vim.fault.InvalidState, match="Kaputt"):
                client.on(vm)
        client.on(vm)
        assert vcenter.requests("PowerOnVM_Task") == 3

    def test_a_request_may_be_refused_at_once(self, vcenter: Simulator, client: Client) -> None:
        vcenter.fail("PowerOnVM_Task", "NoPermission", "Not you.", at_once=True, privilegeId="P")
        vm = client.machine("a")
        with pytest.raises(vim.fault.NoPermission) as failed:
            vm.PowerOnVM_Task(None)
        assert (failed.value.msg, failed.value.privilegeId) == ("Not you.", "P")
        assert vcenter.tasks("PowerOnVM_Task") == []

    def test_a_fault_that_vsphere_does_not_have_is_refused(self, vcenter: Simulator) -> None:
        with pytest.raises(ValueError, match="no type"):
            vcenter.fail("PowerOnVM_Task", "Nonesuch")

    @pytest.mark.parametrize("after", [False, True])
    def test_the_connection_breaks_before_or_after(
        self, vcenter: Simulator, client: Client, after: bool
    ) -> None:
        vm = client.machine("a")
        vcenter.drop("PowerOnVM_Task", after=after)
        with pytest.raises(RemoteDisconnected):
            vm.PowerOnVM_Task(None)
        assert vcenter.vms()["a"]["on"] is after

    def test_an_answer_may_be_nonsense(self, vcenter: Simulator, client: Client) -> None:
        vm = client.machine("a")
        vcenter.nonsense("PowerOnVM_Task", "<html>", status=200)
        with pytest.raises(Exception, match=r"no element found|mismatched"):
            vm.PowerOnVM_Task(None)

    def test_sessions_end(self, vcenter: Simulator, client: Client, log_in: LogIn) -> None:
        vcenter.expire_sessions()
        with pytest.raises(vim.fault.NotAuthenticated):
            client.at("vm/ubuntu").UpgradeVM_Task("vmx-17")
        assert Client(log_in(vcenter)).at("vm/ubuntu").name == "ubuntu"

    def test_a_waiting_caller_gets_the_end_of_the_session(
        self, vcenter: Simulator, client: Client
    ) -> None:
        heard = Listener(client, client.at("vm/ubuntu"), "name")
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(heard.until, bool)
            while vcenter.requests("WaitForUpdatesEx") < 2:
                pass  # each look takes a request
            vcenter.expire_sessions()
            with pytest.raises(vim.fault.NotAuthenticated):
                waiting.result()

    @pytest.mark.timeout(25)  # the wait that was cut would have gone on for 30 s
    def test_a_wait_that_was_cut_keeps_no_other_waiting(
        self, vcenter: Simulator, client: Client
    ) -> None:
        vm = client.at("vm/DC0_C0_RP0_VM0")
        heard = Listener(client, vm, "config.hardware.device")
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(heard.until, bool)
            while vcenter.requests("WaitForUpdatesEx") < 2:
                pass  # each look takes a request
            vcenter.cut_connections()
            with pytest.raises(RemoteDisconnected):
                waiting.result()
        heard.again()
        client.done(vm.PowerOffVM_Task())
        client.reconfigure(vm, whole())
        assert heard.until(lambda value: any(isinstance(device, Pci) for device in value))

    def test_only_the_right_user_comes_in(self, begin: Callable[..., Any]) -> None:
        simulator, client = begin(user="administrator@vsphere.local", password="a&b<c")
        manager = client.content.sessionManager
        manager.Logout()
        for user, password in ((simulator.user, "pass"), ("user", simulator.password)):
            with pytest.raises(vim.fault.InvalidLogin):
                manager.Login(user, password, None)
        assert manager.Login(simulator.user, simulator.password, None).userName == simulator.user

    def test_the_certificate_is_of_the_authority(self, vcenter: Simulator) -> None:
        context = ssl.create_default_context(cadata=vcenter.ca)
        with (
            socket.create_connection((vcenter.host, vcenter.port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            certificate = connection.getpeercert(binary_form=True)
        assert certificate is not None
        assert vcenter.thumbprint.replace(":", "").lower() == sha1(certificate).hexdigest()
        assert vcenter.thumbprint_sha256.replace(":", "").lower() == sha256(certificate).hexdigest()
