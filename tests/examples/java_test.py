"""The Java example."""

import scenes

scenes.need("mvn", "javac")
scenes.need_version(["javac", "-version"], 17)
folder = scenes.copied("java")
# --batch-mode and no progress: what is shown after a failure is what failed.
scenes.build(["mvn", "--batch-mode", "--no-transfer-progress", "--quiet", "package"], folder)
# The example runs for seconds: compiling it further costs more than it gains.
scenes.check(["java", "-XX:TieredStopAtLevel=1", "-jar", folder / "target/baton-example.jar"])
