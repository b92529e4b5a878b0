"""Legends and names of pictures have room, however long the names are."""

import unittest

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg

from baton_analysis.eos import end_pictures, report
from baton_analysis.eos.gather import FAMILIES_MAX, Family


def families(names):
    made = [Family(name, number) for number, name in enumerate(names)]
    for family in made:
        family.ends.add(1_234_567, True)
    return made


class NamesTest(unittest.TestCase):

    def legend(self, names):
        with matplotlib.rc_context(report.RC):
            fig = end_pictures.survival(families(names))
            canvas = FigureCanvasAgg(fig)
            canvas.draw()
            legend, = fig.legends
            return fig, legend, legend.get_window_extent(canvas.get_renderer())

    def test_the_legend_of_long_names_stays_in_the_figure_and_above_the_curves(self):
        for count in (1, 2, 3, FAMILIES_MAX + 1):
            fig, _, box = self.legend(["SUMMARIES OF NEWSPAPERS"] * count)
            self.assertLessEqual(box.x1, fig.bbox.x1)
            self.assertGreaterEqual(box.y0, fig.axes[0].bbox.y1)

    def test_a_name_may_begin_with_an_underscore(self):
        _, legend, _ = self.legend(["_hidden", "story"])
        self.assertEqual([text.get_text().split()[0] for text in legend.get_texts()],
                         ["_hidden", "story"])

    def test_a_shortened_name_keeps_its_number(self):
        first, second = families(["summaries of news", "summaries of talks"])
        self.assertEqual([f.shortened(10) for f in (first, second)], ["summari… 1", "summari… 2"])
        self.assertEqual(first.label, "summaries of news")


if __name__ == "__main__":
    unittest.main()
