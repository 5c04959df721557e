"""The Chinese of what the package's own errors say, by their English text; {0}, {1} stand for what is named.

What the service says stays as it was said.
"""

from __future__ import annotations

ERRORS: tuple[tuple[str, str], ...] = (
    ("{0} did not answer: {1}", "{0} 没有回答：{1}"),
    ("connection refused", "连接被拒绝"),
    ("connection reset by peer", "连接被对方断开"),
    ("broken pipe", "连接被对方断开"),
    ("network is unreachable", "网络不可达"),
    ("no route to host", "没有到主机的路由"),
    ("name or service not known", "找不到这个主机名"),
    ("temporary failure in name resolution", "暂时无法解析主机名"),
    ("no connection in time", "连接超时"),
    ("nothing came in time", "等待超时"),
    ("the answer was cut off", "回答中断"),
    ("this is not an HTTP server", "对方不使用 HTTP"),
    ("what answers there speaks no TLS: is it http://?", "对方不使用 TLS：地址是否应为 http://？"),
    ("its certificate is not trusted: {0}", "证书不可信：{0}"),
    ("No space left on device", "磁盘空间不足"),
    ("Disk quota exceeded", "磁盘配额已用完"),
    ("Permission denied", "没有权限"),
    ("Read-only file system", "文件系统只读"),
    ("No such file or directory", "没有这个文件"),
    ("Is a directory", "这是文件夹"),
    ("Not a directory", "这不是文件夹"),
    ("File too large", "文件太大"),
    (
        "the service answered {0}, not as Tenuto does: is the base address that of a Tenuto service?",
        "对方回答 {0}，不像 Tenuto：这个地址是 Tenuto 服务的吗？",
    ),
    ("the service answered {0}", "服务回答 {0}"),
    (
        "the answer is no JSON: is the base address that of a Tenuto service?",
        "回答不是 JSON：这个地址是 Tenuto 服务的吗？",
    ),
    ("neither `tenuto login` nor {0} gave a key for {1}", "`tenuto login` 和 {0} 都没有给出 {1} 的密钥"),
    ("{0} is for another service, and no key is saved for {1}", "{0} 属于另一个服务，而没有保存 {1} 的密钥"),
    ("a text holds {0}, which UTF-8 cannot carry", "文字含有 {0}，UTF-8 无法表示"),
    ("{0} is no base address; one looks like {1}", "{0} 不是服务地址；应写成 {1} 的样子"),
    (
        "this is no API key: one is a word of ASCII characters that begins with tn_",
        "这不是 API 密钥：密钥是以 tn_ 开头的一串 ASCII 字符",
    ),
    (
        "{0} cannot be read: {1}; remove it and run `tenuto login`",
        "{0} 无法读取：{1}；请删除它，再运行 `tenuto login`",
    ),
    (
        "{0} is not what `tenuto login` writes; remove it and run that again",
        "{0} 不是 `tenuto login` 所写的；请删除它，再运行一次",
    ),
    ("timeout is above 0 seconds, max_retries 0 or more", "timeout 要大于 0 秒，max_retries 不小于 0"),
    (
        "an idempotency key has 1 to 255 printable ASCII characters",
        "幂等键是 1 到 255 个可打印的 ASCII 字符",
    ),
    ("no {0} model takes work from this key now ({1})", "现在没有 {0} 模型接受这个密钥的任务（{1}）"),
    ("it sees none", "看不到任何一个"),
    ("{0} is still {1} after {2} s", "{0} 在 {2} 秒后仍是 {1}"),
    ("{0} failed: the service does not say why", "{0} 失败：服务没有说明原因"),
    ("{0} failed: {1}", "{0} 失败：{1}"),
    ("{0} was cancelled", "{0} 已取消"),
    (
        "{0} waits for the operator: whether it was made or charged is not known; keep the id and do not "
        "submit the work again",
        "{0} 等待运营者处理：是否已完成、是否扣费尚不清楚；请保留编号，不要重新提交",
    ),
    (
        "{0} is {1}, which this version does not know; keep the id and do not submit the work again",
        "{0} 的状态是 {1}，本版本不认识；请保留编号，不要重新提交",
    ),
    (
        "{0} succeeded without a result; report this with its id",
        "{0} 已完成却没有结果；请连同编号告知运营者",
    ),
    ("the result of {0} is {1}, not {2}", "{0} 的结果是 {1}，而不是 {2}"),
    ("{0} was not what was promised, {1} times: {2}", "{0} 有 {1} 次与承诺不符：{2}"),
    ("it is {0}, not {1}", "它是 {0}，而不是 {1}"),
    ("it has {0} bytes, not {1}", "它有 {0} 字节，而不是 {1}"),
    ("its SHA-256 is another one", "它的 SHA-256 不同"),
    ("{0} has another size or hash than what was uploaded", "{0} 的大小或哈希与上传的不同"),
    (
        "the same work was sent to {0} with another API key, and whether it arrived is not known; sent with "
        "this key it could be made and charged twice",
        "同样的工作曾用另一个密钥发给 {0}，是否送达尚不清楚；用这个密钥再发，可能做两次、扣两次费",
    ),
    (
        "the upload was interrupted and the recording is not available any more; send it again",
        "上传中断，录音已不可用；请重新发送",
    ),
    (
        "a journal needs the file locks of POSIX; go without: Tenuto(journal=False)",
        "日志文件需要 POSIX 文件锁；请不用它：Tenuto(journal=False)",
    ),
    (
        "the journal {0} cannot be written ({1}), so nothing was sent; make room, or name another folder in "
        "TENUTO_JOURNAL",
        "日志 {0} 无法写入（{1}），因此什么也没有发送；请腾出空间，或用 TENUTO_JOURNAL 指定另一个文件夹",
    ),
    ("the answer was cut off: {0}", "回答中断：{0}"),
    ("the answer was cut off; ask again", "回答没有结束就中断了；请再问一次"),
    ("the answer is no chat completion", "回答不是对话结果"),
    ("the chat completion has no choice", "对话结果是空的"),
    ("an event of the stream is no JSON", "流中的一个事件不是 JSON"),
    ("a {0} should be a JSON object", "{0} 应是 JSON 对象"),
    ("a {0} without {1}", "{0} 缺少 {1}"),
    ("{0} did not answer with a list", "{0} 的回答不是列表"),
    (
        "{0} lasts {1} minutes; the service takes 120. Cut it into parts with tenuto_client.audio.split",
        "{0} 长 {1} 分钟；服务最多接受 120 分钟。请用 tenuto_client.audio.split 切成几段",
    ),
    (
        "parts overlap by 5 to 10 seconds and last 40 seconds or longer",
        "各段重叠 5 到 10 秒，每段至少 40 秒",
    ),
    (
        "{0} cannot be read as audio ({1}); with ffmpeg on the PATH more formats can be",
        "{0} 无法作为音频读取（{1}）；PATH 中有 ffmpeg 时支持更多格式",
    ),
    ("{0} cannot be read as audio ({1})", "{0} 无法作为音频读取（{1}）"),
    ("Format not recognised", "格式无法识别"),
    ("{0} holds no sound", "{0} 没有声音"),
    ("{0} cannot be read, by ffmpeg neither: {1}", "{0} 无法读取，ffmpeg 也不行：{1}"),
    ("{0} cannot be read: {1}", "{0} 无法读取：{1}"),
    ("{0}: no such file", "{0}：没有这个文件"),
    (
        "converting recordings needs soundfile and soxr; or give a FLAC of 16 kHz, mono, 16 bits",
        "转换录音需要 soundfile 和 soxr；或者提供 16 kHz、单声道、16 位的 FLAC",
    ),
)
"""What is more particular stands before what is more general."""
